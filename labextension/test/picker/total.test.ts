import { describe, expect, it } from 'vitest';

import { english } from '../../src/core/base/translator';
import { totalOf } from '../../src/core/picker/form';
import type { Amounts, Runtime } from '../../src/core/picker/types';
import { runtime } from '../fakes/picker';

function total(change: Partial<Amounts>, ...runtimes: Partial<Runtime>[]): string {
  const ask = { nodes: 4, device: null, each: null, rest: [], ...change };
  return totalOf(ask, runtimes.map(runtime), english);
}

function here(change: Partial<Amounts>): string {
  return totalOf({ nodes: 4, device: null, each: null, rest: [], ...change }, null, english);
}

describe('what a job asks for in all', () => {
  it('is nodes × devices of the line', () => {
    expect(total({ device: 'gpu', each: 8, rest: ['128 CPU', '1 TiB'] })).toBe(
      '32 GPU · 128 CPU · 1 TiB'
    );
    expect(total({ device: 'tpu', each: 4 })).toBe('16 TPU');
    expect(total({ device: 'neuron', each: 2 })).toBe('8 NEURON');
    expect(total({ device: 'cpu', each: 8 })).toBe('32 CPU devices');
    expect(total({ each: 8 })).toBe('32 devices');
  });

  it('counts the devices that the runtime brings', () => {
    expect(total({}, { device: 'gpu', devices: 8 })).toBe('32 GPU');
    expect(total({}, { device: 'tpu', devices: 4 })).toBe('16 TPU');
    expect(total({ device: 'gpu' }, { device: 'gpu', devices: 8 })).toBe('32 GPU');
    expect(total({ each: 2 }, { device: 'gpu', devices: 8 })).toBe('8 GPU');
    expect(total({ rest: ['9 CPU'] }, { device: 'gpu', devices: null })).toBe('4 GPU · 9 CPU');
  });

  it('takes one device of a kind where nobody says more', () => {
    expect(total({ device: 'gpu' })).toBe('4 GPU');
    expect(total({ device: 'gpu' }, { device: 'cpu', devices: 8 })).toBe('4 GPU');
  });

  it('knows what a runtime brings that nobody has named, where all bring the same', () => {
    const cpu = { device: 'cpu', devices: 8 };
    const large = { device: 'gpu', devices: 8 };
    expect(total({ device: 'gpu' }, cpu, large, large)).toBe('32 GPU');
    expect(total({ device: 'gpu' }, cpu, large, { device: 'gpu', devices: 4 })).toBe('4 GPU');
    expect(total({}, cpu, large)).toBe('4 nodes');
    expect(total({}, large)).toBe('32 GPU');
  });

  it('leaves it to this machine to share out what it has', () => {
    expect(here({ device: 'gpu' })).toBe('4 nodes');
    expect(here({ nodes: 1 })).toBe('1 node');
    expect(here({ each: 2 })).toBe('8 devices');
  });

  it('is the nodes where there is nothing else to count', () => {
    expect(total({}, { device: 'cpu', devices: null })).toBe('4 nodes');
    expect(total({ nodes: 1 })).toBe('1 node');
  });
});
