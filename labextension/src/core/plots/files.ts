/** Plots as files to save. */

import type { Column } from './metrics';

/** Quote a field; a text that a spreadsheet would take for a formula stays text. */
function field(value: string | number): string {
  if (typeof value === 'number') {
    return Number.isNaN(value) ? '' : String(value);
  }
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Reports of a job, of the rank that is named, or of the first one. */
interface Reports {
  job: string;
  rank: number | null;
  column: Column | null;
}

/** Return a metric of some jobs as CSV: a line for each report, none left out. */
export function csvOf(name: string, parts: readonly Reports[]): string {
  const ranked = parts.some(({ rank }) => rank !== null);
  const head = ['job', ...(ranked ? ['rank'] : []), 'step', 'time', field(name)];
  const lines = [head.join(',')];
  for (const { job, rank, column } of parts) {
    const label = [field(job), ...(ranked ? [String(rank ?? '')] : [])].join(',');
    column?.values.forEach((value, index) => {
      const step = column.steps[index] ?? NaN;
      const time = column.times[index] ?? NaN;
      lines.push([label, field(step), field(time), field(value)].join(','));
    });
  }
  return lines.join('\r\n') + '\r\n';
}

/** Return a name that any file system takes. */
export function fileName(...parts: string[]): string {
  return parts.join('-').replace(/[^\w.-]+/g, '_');
}

/** Let the user save something. */
export function saveFile(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export interface Picture {
  canvas: HTMLCanvasElement;
  title: string;
  labels: { text: string; colour: string }[];
  background: string;
  text: string;
}

/** Return a plot with its title and labels as a PNG; null where the browser cannot. */
export async function pngOf(picture: Picture): Promise<Blob | null> {
  const { canvas, title, labels, background, text } = picture;
  const scale = Math.max(1, Math.round(window.devicePixelRatio));
  const head = 28 * scale;
  const whole = document.createElement('canvas');
  whole.width = canvas.width;
  whole.height = canvas.height + head;
  const context = whole.getContext('2d');
  if (!context) {
    return null;
  }
  context.fillStyle = background;
  context.fillRect(0, 0, whole.width, whole.height);
  context.drawImage(canvas, 0, head);
  context.textBaseline = 'middle';
  context.font = `600 ${13 * scale}px system-ui, sans-serif`;
  context.fillStyle = text;
  let left = 8 * scale;
  context.fillText(title, left, head / 2);
  left += context.measureText(title).width + 16 * scale;
  context.font = `${12 * scale}px system-ui, sans-serif`;
  for (const label of labels) {
    context.fillStyle = label.colour;
    context.fillText(label.text, left, head / 2);
    left += context.measureText(label.text).width + 12 * scale;
  }
  return new Promise(resolve => whole.toBlob(resolve, 'image/png'));
}
