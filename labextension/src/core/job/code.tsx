import { useEffect, useState } from 'preact/hooks';

import { errorText, toServerError } from '../base/errors';
import { sanitize } from '../base/format';
import type { Host } from '../base/host';
import type { Detail, Row } from '../base/protocol';
import { Section } from './section';

const MAGIC = '%%jaxtrain';

/** Return the cell as it was run: its line, then its code. */
export function sourceOf({ line, code }: Detail): string {
  const options = line.startsWith(MAGIC) ? line.slice(MAGIC.length) : line;
  return `${MAGIC} ${options.trim()}`.trim() + `\n${code ?? ''}`;
}

interface CodeProps {
  detail: Detail;
  /** The line that failed; the line of the magic is the first. */
  bad: number | null;
  host: Host;
}

/** The cell of a job, or the file, with the numbers of its lines. */
export function CodePart({ detail, bad, host }: CodeProps) {
  const { trans } = host;
  const { row } = detail;
  const lines = sanitize(sourceOf(detail)).replace(/\n$/, '').split('\n');
  const notebook = row.notebook;
  const place = notebook ?? detail.script;
  const tools = (
    <>
      <button
        type="button"
        class="jaxtrain-small"
        onClick={() => host.copy(sanitize(sourceOf(detail)))}
      >
        {trans.__('Copy')}
      </button>
      {notebook !== null && host.openNotebook && (
        <button
          type="button"
          class="jaxtrain-small"
          title={sanitize(notebook)}
          onClick={() => host.openNotebook?.(notebook, row.cell)}
        >
          {trans.__('Open the notebook')}
        </button>
      )}
    </>
  );
  return (
    <Section name="code" title={trans.__('Code')} host={host} tools={tools}>
      {place !== null && <p class="jaxtrain-quiet">{sanitize(place)}</p>}
      <div class="jaxtrain-source" tabIndex={0} role="group" aria-label={trans.__('Code')}>
        <pre aria-hidden="true">{lines.map((_, index) => index + 1).join('\n')}</pre>
        <pre>
          {bad === null || bad > lines.length ? (
            <>
              <b>{lines[0]}</b>
              {lines.length > 1 && `\n${lines.slice(1).join('\n')}`}
            </>
          ) : (
            <>
              {lines.slice(0, bad - 1).map(line => `${line}\n`)}
              <mark title={trans.__('The job failed here')}>{lines[bad - 1]}</mark>
              {lines.slice(bad).map(line => `\n${line}`)}
            </>
          )}
        </pre>
      </div>
      <p class="jaxtrain-quiet">
        {detail.returns
          ? trans.__('To run it again, call the function again.')
          : detail.script !== null
            ? trans.__('To run it again, run this file again. That submits a new job.')
            : trans.__('To run it again, run this cell again. That submits a new job.')}
      </p>
    </Section>
  );
}

/** The TrainJob as the cluster has it, asked for when somebody opens it. */
export function YamlPart({ row, host }: { row: Row; host: Host }) {
  const { trans } = host;
  const [text, setText] = useState<string | null>(null);
  const [asked, setAsked] = useState(0);
  if (!host.get || !row.cluster) {
    return null;
  }
  const tools = text !== null && (
    <>
      <button type="button" class="jaxtrain-small" onClick={() => setAsked(asked + 1)}>
        {trans.__('Reload')}
      </button>
      <button type="button" class="jaxtrain-small" onClick={() => host.copy(text)}>
        {trans.__('Copy')}
      </button>
    </>
  );
  return (
    <Section name="yaml" title="YAML" host={host} tools={tools} open={false}>
      <Yaml key={asked} jobKey={row.key} text={text} onText={setText} host={host} />
    </Section>
  );
}

interface YamlProps {
  jobKey: string;
  text: string | null;
  onText: (text: string | null) => void;
  host: Host;
}

function Yaml({ jobKey, text, onText, host }: YamlProps) {
  const { trans } = host;
  const [error, setError] = useState('');
  useEffect(() => {
    let gone = false;
    const path = `jobs/${encodeURIComponent(jobKey)}/yaml`;
    host.get?.<{ yaml: string }>(path).then(
      ({ yaml }) => !gone && onText(sanitize(yaml)),
      (error: unknown) => {
        if (!gone) {
          onText(null);
          setError(errorText(toServerError(error)));
        }
      }
    );
    return () => {
      gone = true;
    };
  }, [jobKey]);
  if (error) {
    return <p role="status">{sanitize(error)}</p>;
  }
  return text === null ? (
    <p class="jaxtrain-quiet" role="status">
      {trans.__('Querying the cluster…')}
    </p>
  ) : (
    <div class="jaxtrain-source" tabIndex={0} role="group" aria-label="YAML">
      <pre>{text}</pre>
    </div>
  );
}
