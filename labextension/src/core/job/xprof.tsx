import { useEffect, useState } from 'preact/hooks';

import { errorText, toServerError } from '../base/errors';
import type { Translator } from '../base/translator';

/** Scripts without the rights of this page: never `allow-same-origin`. */
const SANDBOX = 'allow-scripts allow-downloads allow-popups';

interface XprofProps {
  title: string;
  /** Start XProf on the server if it does not run, and return the address of its page. */
  start: () => Promise<string>;
  trans: Translator;
}

/** The pages of XProf, in a frame that can reach neither Jupyter nor what its pages store. */
export function Xprof({ title, start, trans }: XprofProps) {
  const [round, setRound] = useState(0);
  const [address, setAddress] = useState<string | null>(null);
  const [error, setError] = useState('');
  useEffect(() => {
    let gone = false;
    setAddress(null);
    setError('');
    start().then(
      found => gone || setAddress(found),
      (failed: unknown) => gone || setError(errorText(toServerError(failed)))
    );
    return () => {
      gone = true;
    };
  }, [round]);
  return (
    <div class="jaxtrain-xprof">
      <p class="jaxtrain-quiet">
        <button type="button" class="jaxtrain-small" onClick={() => setRound(round + 1)}>
          {trans.__('Reload')}
        </button>{' '}
        {trans.__(
          'Without internet, the charts and tables that XProf draws with Google Charts stay empty; its trace viewer and graphs work.'
        )}
      </p>
      {error ? (
        <p role="status">{error}</p>
      ) : address === null ? (
        <p class="jaxtrain-quiet" role="status">
          {trans.__('Starting XProf…')}
        </p>
      ) : (
        <iframe
          key={round}
          title={title}
          src={address}
          sandbox={SANDBOX}
          referrerpolicy="no-referrer"
        />
      )}
    </div>
  );
}
