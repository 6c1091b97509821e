import { isWithheld } from '../base/actions';
import { formatBytes, sanitize } from '../base/format';
import type { Host } from '../base/host';
import type { Detail, JobState } from '../base/protocol';
import type { Translator } from '../base/translator';
import { Section } from './section';

type Sent = Detail['sent'];
type Results = NonNullable<JobState['results']>;

/** What went to the ranks with the code. */
export function SentPart({ sent, host }: { sent: Sent; host: Host }) {
  const { trans } = host;
  if (sent.length === 0) {
    return null;
  }
  const whole = formatBytes(sent.reduce((sum, { size }) => sum + size, 0));
  const note = trans._n('%1 item, %2', '%1 items, %2', sent.length, whole);
  return (
    <Section name="sent" title={trans.__('Sent')} host={host} note={note} open={sent.length <= 20}>
      <div class="jaxtrain-scroll">
        <table class="jaxtrain-ranks">
          <Head trans={trans} />
          <tbody>
            {sent.map(({ name, kind, type, size }) => (
              <tr key={name}>
                <th scope="row">{sanitize(name)}</th>
                <td>{sanitize(type || kind)}</td>
                <td>{formatBytes(size)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

/** The results, and why some are missing; before the end, the expected ones. */
export function ResultsPart({ detail, host }: { detail: Detail; host: Host }) {
  const { trans } = host;
  const results = detail.state?.results ?? [];
  const rows = results.length > 0 ? results : expected(detail);
  if (rows.length === 0) {
    return null;
  }
  const lost = results.filter(({ error }) => error !== undefined).length;
  const missing = detail.row.active ? trans.__('when the job ends') : trans.__('did not come back');
  const note = isWithheld(detail.row)
    ? trans.__('withheld: submitted by somebody else')
    : results.length === 0
      ? missing
      : lost > 0
        ? trans.__('%1 of %2 came back', results.length - lost, results.length)
        : trans._n('%1 came back', '%1 came back', results.length);
  return (
    <Section name="results" title={trans.__('Results')} host={host} note={note}>
      <div class="jaxtrain-scroll">
        <table class="jaxtrain-ranks">
          <Head trans={trans} formats />
          <tbody>
            {rows.map(({ name, type, size, format, error }) => (
              <tr key={name} data-failed={error !== undefined}>
                <th scope="row">{detail.returns ? trans.__('returned value') : sanitize(name)}</th>
                {error === undefined ? (
                  <>
                    <td>{sanitize(type ?? '')}</td>
                    <td>{size === undefined ? '' : formatBytes(size)}</td>
                    <td>{size === undefined ? '' : formatOf(format, trans)}</td>
                  </>
                ) : (
                  <td colSpan={3} data-bad="true">
                    {sanitize(error)}
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

/** Return the expected results as rows. */
function expected({ spec: { out }, returns }: Detail): Results {
  const names = returns ? [''] : Array.isArray(out) ? out.map(String) : [];
  return names.map(name => ({ name, type: '…' }));
}

/** Return the format of a result: loading a pickle can run code. Version 0.1 had only pickles. */
function formatOf(format: string | undefined, trans: Translator): string {
  return format === 'plain' ? trans.__('plain') : trans.__('pickle');
}

function Head({ trans, formats = false }: { trans: Translator; formats?: boolean }) {
  return (
    <thead>
      <tr>
        <th scope="col">{trans.__('Name')}</th>
        <th scope="col">{trans.__('Type')}</th>
        <th scope="col">{trans.__('Size')}</th>
        {formats && <th scope="col">{trans.__('Format')}</th>}
      </tr>
    </thead>
  );
}
