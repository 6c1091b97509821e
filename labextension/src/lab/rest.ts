const LONG = 60_000; // milliseconds: who only looks at another page for a moment waits for nothing

interface Rests {
  rest(): void;
  wake(): void;
}

/** Let something rest while nobody can see the page; give what ends that. */
export function restWhileHidden(what: Rests): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) {
      timer = setTimeout(() => what.rest(), LONG);
    } else {
      what.wake();
    }
  };
  document.addEventListener('visibilitychange', look);
  look();
  return () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', look);
  };
}
