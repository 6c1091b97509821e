import { useEffect, useState } from 'preact/hooks';

import { isWithheld } from '../base/actions';
import { errorText, toServerError } from '../base/errors';
import { formatBytes, sanitize } from '../base/format';
import type { Host } from '../base/host';
import { Prose } from '../base/prose';
import type { Detail, ProfileState, ProfileSummary, RankSummary } from '../base/protocol';
import type { Translator } from '../base/translator';
import { Section } from './section';

const OPERATIONS = 15;
const ALLOCATIONS = 8;

/** What takes the time of a job: its last profile, or the one that is chosen. */
export function ProfilePart({ detail, host }: { detail: Detail; host: Host }) {
  const { row, state } = detail;
  const { trans } = host;
  const [chosen, setChosen] = useState<string | null>(null);
  const profiles = state?.profiles ?? [];
  const runs = row.profiles && row.state === 'Running';
  if (!host.get) {
    return null;
  }
  const shown = profiles.find(({ name }) => name === chosen) ?? profiles.at(-1);
  const busy = profiles.some(({ whole }) => !whole);
  const tools = (
    <>
      {profiles.length > 1 && (
        <select
          aria-label={trans.__('Profile')}
          value={shown?.name}
          onChange={event => setChosen(event.currentTarget.value)}
        >
          {profiles.map(({ name }) => (
            <option key={name} value={name}>
              {sanitize(name)}
            </option>
          ))}
        </select>
      )}
      {runs && (
        <button
          type="button"
          class="jaxtrain-small"
          aria-disabled={busy || undefined}
          onClick={() => {
            if (!busy) {
              setChosen(null);
              host.act(row, 'profile');
            }
          }}
        >
          {trans.__('Profile for 5 s')}
        </button>
      )}
    </>
  );
  return (
    <Section name="profile" title={trans.__('Profile')} host={host} tools={tools} open={false}>
      {shown === undefined ? (
        <p class="jaxtrain-quiet">
          {trans.__('Shows what takes the time, on each rank, while the job runs.')}
        </p>
      ) : !shown.whole ? (
        <p class="jaxtrain-quiet" role="status">
          {trans.__('Profiling the ranks…')}
        </p>
      ) : isWithheld(row) ? (
        <p class="jaxtrain-quiet">{trans.__('withheld: submitted by somebody else')}</p>
      ) : (
        <Summary
          key={`${shown.name} ${String(shown.time)}`}
          jobKey={row.key}
          profile={shown}
          host={host}
        />
      )}
    </Section>
  );
}

interface SummaryProps {
  jobKey: string;
  profile: ProfileState;
  host: Host;
}

function Summary({ jobKey, profile, host }: SummaryProps) {
  const { trans } = host;
  const [found, setFound] = useState<ProfileSummary | null>(null);
  const [error, setError] = useState('');
  useEffect(() => {
    let gone = false;
    const path = `jobs/${encodeURIComponent(jobKey)}/profiles/${encodeURIComponent(profile.name)}`;
    host.get?.<ProfileSummary>(path).then(
      answer => gone || setFound(answer),
      (failed: unknown) => gone || setError(errorText(toServerError(failed)))
    );
    return () => {
      gone = true;
    };
  }, []);
  if (error) {
    return <p role="status">{sanitize(error)}</p>;
  }
  if (found === null) {
    return (
      <p class="jaxtrain-quiet" role="status">
        {trans.__('Reading the profile…')}
      </p>
    );
  }
  const saves = new Set(
    profile.ranks.filter(({ files }) => 'trace.xplane.pb' in files).map(({ rank }) => rank)
  );
  const save = (rank: number) =>
    saves.has(rank) && host.saveTrace
      ? () => host.saveTrace?.(jobKey, profile.name, rank)
      : undefined;
  return (
    <div class="jaxtrain-scroll jaxtrain-profile">
      {found.notes.map(note => (
        <p key={note} class="jaxtrain-quiet" dir="auto">
          <Prose text={note} />
        </p>
      ))}
      {host.openXprof && (
        <p class={found.xprof ? undefined : 'jaxtrain-quiet'}>
          {found.xprof ? (
            <button
              type="button"
              class="jaxtrain-small"
              onClick={() => host.openXprof?.(jobKey, profile.name)}
            >
              {trans.__('Open in XProf')}
            </button>
          ) : (
            <Prose
              text={trans.__(
                'XProf shows more. To open it here, install it where Jupyter runs: `pip install xprof`'
              )}
            />
          )}
        </p>
      )}
      <Ranks ranks={found.ranks} save={save} trans={trans} />
      <Operations found={found} trans={trans} />
      <Allocations ranks={found.ranks} trans={trans} />
    </div>
  );
}

interface RanksProps {
  ranks: RankSummary[];
  save: (rank: number) => (() => void) | undefined;
  trans: Translator;
}

function Ranks({ ranks, save, trans }: RanksProps) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">{trans.__('Rank')}</th>
          <th scope="col">{trans.__('Took')}</th>
          <th scope="col">{trans.__('Devices')}</th>
          <th scope="col">{trans.__('Busy')}</th>
          <th scope="col">{trans.__('Idle')}</th>
          <th scope="col">{trans.__('Collectives')}</th>
          <th scope="col">{trans.__('Trace')}</th>
        </tr>
      </thead>
      <tbody>
        {ranks.map(one => {
          const onSave = save(one.rank);
          return (
            <tr key={one.rank}>
              <th scope="row">{one.rank}</th>
              {one.problem === null ? (
                <>
                  <td>{trans.__('%1 s', one.seconds.toFixed(1))}</td>
                  <td>{one.devices}</td>
                  <td>{share(one.busy, one.seconds)}</td>
                  <td>{share(one.seconds - one.busy, one.seconds)}</td>
                  <td>{share(one.collectives, one.busy)}</td>
                </>
              ) : (
                <td colSpan={5} data-bad="true">
                  {sanitize(one.problem)}
                </td>
              )}
              <td>
                {onSave && (
                  <button
                    type="button"
                    class="jaxtrain-small"
                    title={trans.__('Save the trace of rank %1 for ui.perfetto.dev', one.rank)}
                    onClick={onSave}
                  >
                    {trans.__('Open in Perfetto')}
                  </button>
                )}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Operations({ found, trans }: { found: ProfileSummary; trans: Translator }) {
  const { ranks, operations } = found;
  if (operations.length === 0) {
    return null;
  }
  const read = ranks.filter(({ problem }) => problem === null);
  const busy = read.reduce((sum, one) => sum + one.busy * one.devices, 0) / read.length;
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">{trans.__('Operation')}</th>
          <th scope="col">{trans.__('Program')}</th>
          <th scope="col">{trans.__('Per rank')}</th>
          <th scope="col">{trans.__('Share')}</th>
          <th scope="col">{trans.__('Most')}</th>
        </tr>
      </thead>
      <tbody>
        {operations.slice(0, OPERATIONS).map(one => (
          <tr key={`${one.module} ${one.name}`}>
            <th scope="row" title={sanitize(one.name)}>
              {sanitize(one.name)}
            </th>
            <td title={sanitize(one.module)}>{sanitize(one.module)}</td>
            <td>{milliseconds(one.seconds, trans)}</td>
            <td>{share(one.seconds, busy)}</td>
            <td>{trans.__('%1, rank %2', milliseconds(one.most, trans), one.rank)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Allocations({ ranks, trans }: { ranks: RankSummary[]; trans: Translator }) {
  const lines = ranks.flatMap(({ rank, allocations }) =>
    allocations.slice(0, ALLOCATIONS).map(held => ({ rank, ...held }))
  );
  if (lines.length === 0) {
    return null;
  }
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">{trans.__('Rank')}</th>
          <th scope="col">{trans.__('Allocated by')}</th>
          <th scope="col">{trans.__('Device')}</th>
          <th scope="col">{trans.__('Size')}</th>
        </tr>
      </thead>
      <tbody>
        {lines.map(({ rank, where, device, size }) => (
          <tr key={`${String(rank)} ${where} ${device}`}>
            <th scope="row">{rank}</th>
            <td title={sanitize(where)}>{sanitize(where)}</td>
            <td>{sanitize(device)}</td>
            <td>{formatBytes(size)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function share(part: number, whole: number): string {
  return whole > 0 ? `${((100 * part) / whole).toFixed(0)} %` : '';
}

function milliseconds(seconds: number, trans: Translator): string {
  return trans.__('%1 ms', (1000 * seconds).toFixed(1));
}
