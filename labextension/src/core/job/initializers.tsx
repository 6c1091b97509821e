import { plain } from '../base/format';
import type { Host } from '../base/host';
import type { Initializer } from '../base/protocol';
import { rankStateWord } from '../base/states';
import { Section } from './section';
import { exitText } from './texts';

/** What fetches a data set or a model before the ranks start. */
export function Initializers({ steps, host }: { steps: readonly Initializer[]; host: Host }) {
  const { words } = host;
  if (steps.length === 0) {
    return null;
  }
  return (
    <Section name="initializers" title={words.__('Before the ranks')} host={host}>
      <div class="jaxtrain-scroll">
        <table class="jaxtrain-ranks jaxtrain-steps">
          <thead>
            <tr>
              <th scope="col">{words.__('Initializer')}</th>
              <th scope="col">{words.__('State')}</th>
              <th scope="col">{words.__('Pod')}</th>
              <th scope="col">{words.__('Node')}</th>
              <th scope="col">{words.__('Restarts')}</th>
              <th scope="col">{words.__('Exit')}</th>
            </tr>
          </thead>
          <tbody>
            {steps.map(({ name, state, pod, host: node, restarts, exit }) => (
              <tr key={name} data-failed={state === 'Failed'}>
                <th scope="row" title={plain(name)}>
                  {plain(name)}
                </th>
                <td>{rankStateWord(state, words)}</td>
                <td class="jaxtrain-end" title={plain(pod ?? '')}>
                  <bdi>{plain(pod ?? '')}</bdi>
                </td>
                <td title={plain(node ?? '')}>{plain(node ?? '')}</td>
                <td>{restarts}</td>
                <td data-bad={exit !== null && exit !== 0}>{exitText(exit, words)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}
