import { plain } from '../../format';
import type { Host } from '../../host';
import type { Detail } from '../../protocol';
import type { Words } from '../../words';
import { Section } from './section';
import { bytes } from './texts';

type Sent = Detail['sent'];

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
  if (results.length === 0) {
    return <Expected detail={detail} host={host} />;
  }
  const lost = results.filter(({ error }) => error !== undefined).length;
  const note =
    lost > 0
      ? words.__('%1 of %2 came back', results.length - lost, results.length)
      : words._n('%1 came back', '%1 came back', results.length);
  return (
    <Section name="results" title={words.__('Results')} host={host} note={note}>
      <div class="jaxtrain-scroll">
        <table class="jaxtrain-ranks">
          <Head words={words} />
          <tbody>
            {results.map(({ name, type, size, error }) => (
              <tr key={name} data-failed={error !== undefined}>
                <th scope="row">{detail.returns ? words.__('returned value') : plain(name)}</th>
                {error === undefined ? (
                  <>
                    <td>{plain(type ?? '')}</td>
                    <td>{size === undefined ? '' : bytes(size)}</td>
                  </>
                ) : (
                  <td colSpan={2} data-bad="true">
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

/** What a job is to bring back, in the place that it will have. */
function Expected({ detail, host }: { detail: Detail; host: Host }) {
  const { words } = host;
  const { out } = detail.spec;
  const named = Array.isArray(out) ? out.map(String) : [];
  const names = detail.returns ? [words.__('returned value')] : named.map(plain);
  if (names.length === 0) {
    return null;
  }
  const when = detail.row.active ? words.__('when the job ends') : words.__('did not come back');
  return (
    <Section name="results" title={words.__('Results')} host={host} note={when}>
      <div class="jaxtrain-scroll">
        <table class="jaxtrain-ranks">
          <Head words={words} />
          <tbody>
            {names.map(name => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>…</td>
                <td />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

function Head({ words }: { words: Words }) {
  return (
    <thead>
      <tr>
        <th scope="col">{words.__('Name')}</th>
        <th scope="col">{words.__('Type')}</th>
        <th scope="col">{words.__('Size')}</th>
      </tr>
    </thead>
  );
}
