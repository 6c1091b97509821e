import { plain } from '../base/format';
import { isWithheld, type Host } from '../base/host';
import type { Detail, JobState } from '../base/protocol';
import type { Words } from '../base/translator';
import { Section } from './section';
import { bytes } from './texts';

type Sent = Detail['sent'];
type Results = NonNullable<JobState['results']>;

/** What went to the ranks with the code. */
export function SentPart({ sent, host }: { sent: Sent; host: Host }) {
  const { words } = host;
  if (sent.length === 0) {
    return null;
  }
  const whole = bytes(sent.reduce((sum, { size }) => sum + size, 0));
  const note = words._n('%1 thing, %2', '%1 things, %2', sent.length, whole);
  return (
    <Section name="sent" title={words.__('Sent')} host={host} note={note} open={sent.length <= 20}>
      <div class="jaxtrain-scroll">
        <table class="jaxtrain-ranks">
          <Head words={words} />
          <tbody>
            {sent.map(({ name, kind, type, size }) => (
              <tr key={name}>
                <th scope="row">{plain(name)}</th>
                <td>{plain(type || kind)}</td>
                <td>{bytes(size)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

/** What came back, and why something did not; before, what is to come. */
export function ResultsPart({ detail, host }: { detail: Detail; host: Host }) {
  const { words } = host;
  const results = detail.state?.results ?? [];
  const rows = results.length > 0 ? results : expected(detail);
  if (rows.length === 0) {
    return null;
  }
  const lost = results.filter(({ error }) => error !== undefined).length;
  const missing = detail.row.active ? words.__('when the job ends') : words.__('did not come back');
  const note = isWithheld(detail.row)
    ? words.__('withheld: submitted by somebody else')
    : results.length === 0
      ? missing
      : lost > 0
        ? words.__('%1 of %2 came back', results.length - lost, results.length)
        : words._n('%1 came back', '%1 came back', results.length);
  return (
    <Section name="results" title={words.__('Results')} host={host} note={note}>
      <div class="jaxtrain-scroll">
        <table class="jaxtrain-ranks">
          <Head words={words} formats />
          <tbody>
            {rows.map(({ name, type, size, format, error }) => (
              <tr key={name} data-failed={error !== undefined}>
                <th scope="row">{detail.returns ? words.__('returned value') : plain(name)}</th>
                {error === undefined ? (
                  <>
                    <td>{plain(type ?? '')}</td>
                    <td>{size === undefined ? '' : bytes(size)}</td>
                    <td>{size === undefined ? '' : formatOf(format, words)}</td>
                  </>
                ) : (
                  <td colSpan={3} data-bad="true">
                    {plain(error)}
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

/** What a job is to bring back: the rows that its results will have. */
function expected({ spec: { out }, returns }: Detail): Results {
  const names = returns ? [''] : Array.isArray(out) ? out.map(String) : [];
  return names.map(name => ({ name, type: '…' }));
}

/** How a result is kept: loading a pickle runs code that came with it. Version 0.1 had no others. */
function formatOf(format: string | undefined, words: Words): string {
  return format === 'plain' ? words.__('plain') : words.__('pickle');
}

function Head({ words, formats = false }: { words: Words; formats?: boolean }) {
  return (
    <thead>
      <tr>
        <th scope="col">{words.__('Name')}</th>
        <th scope="col">{words.__('Type')}</th>
        <th scope="col">{words.__('Size')}</th>
        {formats && <th scope="col">{words.__('Format')}</th>}
      </tr>
    </thead>
  );
}
