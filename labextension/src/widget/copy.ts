/** Copy a text, also where the page may not use the clipboard by itself. */
export function copy(text: string): void {
  // A page that is not served safely has no clipboard, whatever the types say.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  void (clipboard?.writeText(text) ?? Promise.reject(new Error('no clipboard'))).catch(() => {
    const area = document.body.appendChild(document.createElement('textarea'));
    area.value = text;
    area.style.cssText = 'position:fixed;opacity:0';
    area.select();
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- the only way that is left
    document.execCommand('copy');
    area.remove();
  });
}
