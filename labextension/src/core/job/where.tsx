import { useEffect, useState } from 'preact/hooks';

import { errorText, toServerError } from '../base/errors';
import { duration, formatBytes, sanitize } from '../base/format';
import type { Host } from '../base/host';
import { Prose } from '../base/prose';
import type { PlaceGroup, RankPlaces, Row } from '../base/protocol';
import { formatRanks } from '../base/ranks';
import { rankStateLabel } from '../base/states';
import type { Translator } from '../base/translator';
import { Section } from './section';

/** Milliseconds between looks while somebody watches. */
const INTERVAL = 3000;

/** At which line each rank is, asked for while somebody looks at it. */
export function WherePart({ row, host }: { row: Row; host: Host }) {
  if (!host.get || !row.where) {
    return null;
  }
  return (
    <Section name="where" title={host.trans.__('Where ranks are')} host={host} open={false}>
      {row.state === 'Starting' || row.state === 'Running' ? (
        <Places row={row} host={host} />
      ) : (
        <p class="jaxtrain-quiet">{host.trans.__('No rank is running.')}</p>
      )}
    </Section>
  );
}

function Places({ row, host }: { row: Row; host: Host }) {
  const jobKey = row.key;
  const { trans } = host;
  const [found, setFound] = useState<RankPlaces | null>(null);
  const [error, setError] = useState('');
  useEffect(() => {
    let gone = false;
    let timer: number | undefined;
    const ask = async () => {
      try {
        const path = `jobs/${encodeURIComponent(jobKey)}/where`;
        const answer = await host.get?.<RankPlaces>(path);
        if (!gone) {
          setFound(answer ?? { groups: [], notes: [] });
          setError('');
        }
      } catch (failed: unknown) {
        if (!gone) {
          setError(errorText(toServerError(failed)));
        }
      }
      if (!gone) {
        timer = window.setTimeout(() => void ask(), INTERVAL);
      }
    };
    void ask();
    return () => {
      gone = true;
      window.clearTimeout(timer);
    };
  }, [jobKey]);
  if (error) {
    return <p role="status">{sanitize(error)}</p>;
  }
  if (found === null) {
    return (
      <p class="jaxtrain-quiet" role="status">
        {trans.__('Asking the ranks…')}
      </p>
    );
  }
  const { groups, notes } = found;
  const silent = row.cluster && groups.some(({ answered }) => !answered);
  return (
    <div class="jaxtrain-scroll">
      {notes.map(note => (
        <p key={note} class="jaxtrain-quiet" dir="auto">
          <Prose text={note} />
        </p>
      ))}
      {silent && (
        <p class="jaxtrain-quiet">
          {trans.__('On a cluster, ranks report their line after staying on it for a while.')}
        </p>
      )}
      <table class="jaxtrain-ranks jaxtrain-places">
        <thead>
          <tr>
            <th scope="col">{trans.__('Ranks')}</th>
            <th scope="col">{trans.__('Where')}</th>
            <th scope="col">{trans.__('For')}</th>
            <th scope="col">{trans.__('Process')}</th>
            <th scope="col">{trans.__('Memory')}</th>
          </tr>
        </thead>
        <tbody>
          {groups.map(group => (
            <tr key={group.ranks.join()}>
              <th scope="row" title={formatRanks(group.ranks)}>
                {formatRanks(group.ranks)}
              </th>
              <td title={placeText(group, trans)}>{placeText(group, trans)}</td>
              <td>{group.seconds === null ? '' : duration(group.seconds, trans)}</td>
              <td>{sanitize(group.process ?? '')}</td>
              <td>{group.memory === null ? '' : formatBytes(group.memory)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Return where ranks are: `Cell 3 line 12 in psum, model.py:40 in loss`. */
function placeText(group: PlaceGroup, trans: Translator): string {
  const { state, answered, line, process } = group;
  const label = rankStateLabel(state, trans);
  if (!answered) {
    return process === null ? label : trans.__('%1, no answer', label);
  }
  const cell = sanitize(group.cell ?? '');
  const call = sanitize(group.call ?? '');
  const place =
    line === null
      ? label
      : call
        ? trans.__('%1 line %2 in %3', cell, line, call)
        : trans.__('%1 line %2', cell, line);
  return group.frame === null ? place : `${place}, ${sanitize(group.frame)}`;
}
