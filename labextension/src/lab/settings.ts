import type { ISettingRegistry } from '@jupyterlab/settingregistry';

/** Call `apply` with a plugin's settings, now and whenever they change. */
export async function onSettings(
  registry: ISettingRegistry | null,
  plugin: string,
  apply: (values: Partial<Record<string, unknown>>) => void
): Promise<void> {
  if (!registry) {
    return;
  }
  try {
    const settings = await registry.load(plugin);
    const update = () => apply(settings.composite);
    settings.changed.connect(update);
    update();
  } catch (error) {
    console.error('jaxtrain:', error);
  }
}
