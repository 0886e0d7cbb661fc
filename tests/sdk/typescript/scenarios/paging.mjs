// Long lists, in both directions.

import assert from 'node:assert/strict';
import { refused } from '../client.mjs';
import { ids, message } from '../world.mjs';

const MANY = 250;

export default {
  async 'paging.sessions'(w) {
    const [agent, environment_id] = [await w.agent(), await w.environment()];
    const made = [];
    let next = 0;
    const make = async () => {
      while (next < MANY) {
        const title = String(next++);
        made.push(await w.api.sessions.create({ agent: agent.id, environment_id, title }));
      }
    };
    await Promise.all(Array.from({ length: 8 }, make));
    const key = (session) => `${session.created_at} ${session.id}`;
    const expected = ids(made.sort((a, b) => (key(a) < key(b) ? -1 : 1)));

    const list = (query) => w.api.sessions.list({ agent_id: agent.id, limit: 40, ...query });
    const pages = [await list({})];
    assert.equal(pages[0].prevPage, null, 'none before the first');
    while (pages.at(-1).nextPage) pages.push(await pages.at(-1).next());
    const forward = pages.flatMap((page) => ids(page.data));
    assert.deepEqual(forward, expected.toReversed());
    assert.equal(pages.length, 7);
    const back = [pages.at(-1)];
    while (back.at(-1).prevPage) back.push(await list({ page: back.at(-1).prevPage }));
    const backward = back.toReversed().flatMap((page) => ids(page.data));
    assert.deepEqual(backward, forward, 'the same pages, the other way');
    const all = await w.api.sessions.list({ agent_id: agent.id });
    assert.deepEqual(ids(await all.all()), forward);

    await refused(list({ order: 'asc', page: pages[0].nextPage }), 'BadRequestError');
    const up = await list({ order: 'asc', limit: 100 });
    assert.deepEqual(ids(await up.all()), expected);
  },

  async 'paging.events'(w) {
    const session = await w.session();
    const texts = Array.from({ length: 120 }, (_, n) => String(n));
    const events = [message([{ text: 'All of them.' }]), ...texts.map((text) => message(text))];
    await w.api.sessions.events.send(session.id, { events });
    const talk = await w.follow(session.id, {}, { headers: { 'Last-Event-ID': '0' } });
    await talk.idle();
    talk.close();
    for (const limit of [1, 7, 1000]) {
      const found = await w.history(session.id, { types: ['user.message'], limit });
      assert.deepEqual(found.slice(1).map((event) => event.content[0].text), texts);
    }
    await refused(w.api.sessions.events.list(session.id, { limit: 1001 }), 'BadRequestError');
    await refused(w.api.sessions.events.list(session.id, { limit: 0 }), 'BadRequestError');
  },

  async 'paging.foreign_cursors'(w) {
    await w.agent();
    await w.agent();
    const { nextPage } = await w.api.agents.list({ limit: 1 });
    for (const work of [
      () => w.api.agents.list({ page: 'page_nonsense' }),
      () => w.api.environments.list({ page: nextPage }),
      () => w.api.sessions.list({ page: nextPage }),
    ]) {
      assert.match((await refused(work(), 'BadRequestError')).message, /page/);
    }
  },
};
