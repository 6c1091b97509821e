/** What is selected, as plain text: without times and ranks. */

const ROW = '.jaxtrain-log-row';

export function copied(part: DocumentFragment): string | null {
  const rows = [...part.querySelectorAll<HTMLElement>(ROW)];
  if (rows.length === 0) {
    return null; // a part of one line
  }
  return rows
    .map(row => {
      const texts = [...row.querySelectorAll('.jaxtrain-log-text')];
      return texts.map(text => text.textContent).join('');
    })
    .join('\n');
}
