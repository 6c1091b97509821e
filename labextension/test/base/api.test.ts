import { describe, expect, it, vi } from 'vitest';

import { Api, type Fetch } from '../../src/core/base/api';
import { ServerError } from '../../src/core/base/errors';
import { english } from '../../src/core/base/translator';

function answer(status: number, body: unknown): Api {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return new Api(() => Promise.resolve(new Response(text, { status })));
}

describe('an action', () => {
  it('is a request of its own, with the key made safe', async () => {
    const fetch = vi.fn<Fetch>(() => Promise.resolve(new Response('{}')));
    const api = new Api(fetch);
    await api.act({ key: 'a/b', uid: 'u' }, 'cancel');
    await api.act({ key: 'a', uid: 'u' }, 'delete');
    expect(fetch.mock.calls).toEqual([
      ['jobs/a%2Fb/cancel', { method: 'POST' }],
      ['jobs/a', { method: 'DELETE' }]
    ]);
  });

  it('fails with the words of the server', async () => {
    const api = answer(409, { message: 'It has ended.', hint: 'Delete it.' });
    const error = await api
      .act({ key: 'a', uid: 'u' }, 'cancel')
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ServerError);
    expect(error).toMatchObject({ message: 'It has ended.', hint: 'Delete it.' });
  });

  it('fails with words of its own where the answer has none, or there is no answer', async () => {
    await expect(answer(502, '<html>').act({ key: 'a', uid: 'u' }, 'cancel')).rejects.toThrow(
      '502'
    );
    const silent = new Api(() => Promise.reject(new TypeError('network')));
    await expect(silent.act({ key: 'a', uid: 'u' }, 'cancel')).rejects.toThrow('is not responding');
  });
});

describe('what is asked for', () => {
  it('comes as JSON, and what is sent goes as JSON', async () => {
    const fetch = vi.fn<Fetch>(() => Promise.resolve(new Response('{"found": false}')));
    const api = new Api(fetch);
    expect(await api.get('places')).toEqual({ found: false });
    expect(await api.post('line/read', { source: 'x' })).toEqual({ found: false });
    expect(fetch.mock.calls).toEqual([
      ['places', {}],
      ['line/read', { method: 'POST', body: '{"source":"x"}' }]
    ]);
    await expect(answer(400, { message: 'No.' }).get('places')).rejects.toThrow('No.');
  });
});

describe('the probe', () => {
  it.each([
    [404, 'missing'],
    [403, 'refused'],
    [401, 'refused'],
    [500, 'other']
  ])('takes %d for %s', async (status, kind) => {
    expect((await answer(status, { message: 'No.', hint: null }).probe())?.kind).toBe(kind);
  });

  it('finds nothing wrong with a server that answers, and tells one that does not', async () => {
    expect(await answer(200, { jobs: [] }).probe()).toBeNull();
    const silent = new Api(() => Promise.reject(new TypeError('network')));
    expect((await silent.probe())?.kind).toBe('unreachable');
  });
});

describe('words', () => {
  it('are the host\u2019s', async () => {
    const trans = { ...english, __: (text: string) => `<${text}>` };
    const silent = new Api(() => Promise.reject(new TypeError('network')), trans);
    await expect(silent.get('jobs')).rejects.toThrow('<The Jupyter server is not responding.>');
  });
});
