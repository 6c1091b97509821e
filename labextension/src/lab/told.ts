/** What the pages of one browser have told the user, so that each thing is told once. */

const STORE = 'jaxtrain:told';
const MOST = 200;
const LATER = 300; // milliseconds

/** Say whether nobody has told this yet; then it counts as told. */
export async function isNews(name: string): Promise<boolean> {
  await seen();
  if (!document.hasFocus()) {
    // Of two windows next to each other the one that is worked in shall tell.
    await new Promise(resolve => setTimeout(resolve, LATER));
  }
  // Pages over plain HTTP from elsewhere have no locks; then two pages may tell the same.
  const locks = (navigator as { locks?: LockManager }).locks;
  return locks ? await locks.request(STORE, () => note(name)) : note(name);
}

/** Wait until the page is seen: of several pages the one that is looked at shall tell. */
async function seen(): Promise<void> {
  if (document.hidden) {
    await new Promise<void>(resolve => {
      const look = () => {
        if (!document.hidden) {
          document.removeEventListener('visibilitychange', look);
          resolve();
        }
      };
      document.addEventListener('visibilitychange', look);
    });
  }
}

function note(name: string): boolean {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(STORE) ?? '[]');
    const told: unknown[] = Array.isArray(found) ? found : [];
    if (told.includes(name)) {
      return false;
    }
    localStorage.setItem(STORE, JSON.stringify([...told, name].slice(-MOST)));
  } catch {
    // A browser may refuse to store anything; telling twice is better than not at all.
  }
  return true;
}
