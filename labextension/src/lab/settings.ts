import type { ISettingRegistry } from '@jupyterlab/settingregistry';

/** Call `apply` with a plugin's settings, now and whenever they change. */
export function onSettings(
  registry: ISettingRegistry | null,
  plugin: string,
  apply: (values: Partial<Record<string, unknown>>) => void
): void {
  registry
    ?.load(plugin)
    .then(settings => {
      const update = () => apply(settings.composite);
      settings.changed.connect(update);
      update();
    })
    .catch((error: unknown) => console.error('jaxtrain:', error));
}
