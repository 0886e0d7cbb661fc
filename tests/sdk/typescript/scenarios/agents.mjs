// Agents and their versions.

import assert from 'node:assert/strict';
import { refused } from '../client.mjs';
import { custom, ids, toolset } from '../world.mjs';

export default {
  async 'agents.create'(w) {
    const agent = await w.api.agents.create({ name: 'plain', model: 'scripted' });
    assert.deepEqual([agent.type, agent.name, agent.version], ['agent', 'plain', 1]);
    assert.equal(agent.model.id, 'scripted');
    assert.ok(agent.model.effort);
    assert.deepEqual([agent.tools, agent.mcp_servers, agent.skills, agent.metadata], [[], [], [], {}]);
    assert.deepEqual([agent.description, agent.system, agent.archived_at], [null, null, null]);
    assert.equal(agent.created_at, agent.updated_at);
  },

  async 'agents.create.full'(w) {
    const ask = { type: 'always_ask' };
    const configs = [{ name: 'bash', enabled: true, permission_policy: ask }, { name: 'read', enabled: true }];
    const agent = await w.api.agents.create({
      name: 'full',
      model: { id: 'scripted', effort: 'low' },
      description: 'Everything at once.',
      system: 'Be brief.',
      tools: [toolset({ default_config: { enabled: false }, configs }), custom('lookup')],
      metadata: { team: 'a', empty: '' },
    });
    assert.deepEqual([agent.description, agent.system], ['Everything at once.', 'Be brief.']);
    assert.deepEqual(agent.model.effort, { type: 'low' });
    assert.deepEqual(agent.metadata, { team: 'a', empty: '' });
    const [kit, lookup] = agent.tools;
    assert.deepEqual(kit.default_config, { enabled: false, permission_policy: { type: 'always_allow' } });
    const enabled = Object.fromEntries(kit.configs.map((entry) => [entry.name, entry.enabled]));
    const asked = kit.configs.filter((entry) => entry.permission_policy.type === 'always_ask');
    assert.deepEqual([enabled.bash, enabled.read], [true, true]);
    assert.deepEqual(asked.map((entry) => entry.name), ['bash']);
    assert.deepEqual([lookup.type, lookup.name, lookup.description], ['custom', 'lookup', 'Looks up.']);
    assert.deepEqual(lookup.input_schema.properties, { word: { type: 'string' } });
  },

  async 'agents.retrieve'(w) {
    const agent = await w.agent({ system: 'one' });
    await w.api.agents.update(agent.id, { system: 'two', version: 1 });
    const newest = await w.api.agents.retrieve(agent.id);
    const first = await w.api.agents.retrieve(agent.id, { version: 1 });
    assert.deepEqual([newest.version, newest.system], [2, 'two']);
    assert.deepEqual([first.version, first.system, first.id], [1, 'one', agent.id]);
    await refused(w.api.agents.retrieve(agent.id, { version: 3 }), 'NotFoundError');
  },

  async 'agents.update'(w) {
    const agent = await w.agent({ description: 'd', system: 's', metadata: { a: '1', b: '2' } });
    const changed = await w.api.agents.update(agent.id, {
      version: 1,
      name: 'renamed',
      description: null,
      metadata: { a: null, c: '3' },
      tools: [toolset({ configs: [{ name: 'bash', enabled: false }] })],
    });
    assert.deepEqual([changed.version, changed.name, changed.description], [2, 'renamed', null]);
    assert.deepEqual([changed.metadata, changed.system], [{ b: '2', c: '3' }, 's']);
    assert.equal(changed.tools[0].default_config.enabled, true);
    const bash = changed.tools[0].configs.find((entry) => entry.name === 'bash');
    assert.deepEqual([bash.enabled, bash.permission_policy.type], [false, 'always_allow']);
    const cleared = await w.api.agents.update(agent.id, { version: 2, tools: null, metadata: null });
    assert.deepEqual([cleared.version, cleared.tools], [3, []]);
    assert.deepEqual(cleared.metadata, { b: '2', c: '3' });
  },

  async 'agents.update.no_change'(w) {
    const agent = await w.agent({ system: 's', metadata: { a: '1' } });
    const same = await w.api.agents.update(agent.id, { version: 1, system: 's', metadata: { a: '1' } });
    assert.deepEqual([same.version, same.updated_at], [1, agent.updated_at]);
  },

  async 'agents.update.conflict'(w) {
    const agent = await w.agent();
    await w.api.agents.update(agent.id, { version: 1, name: 'second' });
    // The same fields as stored, under a stale version: a conflict all the same.
    const stale = w.api.agents.update(agent.id, { version: 1, name: 'second' });
    const error = await refused(stale, 'ConflictError');
    assert.equal(error.type, 'conflict_error');
    assert.equal(error.headers.get('x-should-retry'), 'false');
  },

  async 'agents.archive'(w) {
    const agent = await w.agent();
    const gone = await w.api.agents.archive(agent.id);
    assert.equal(gone.id, agent.id);
    assert.ok(gone.archived_at);
    await refused(w.api.agents.update(agent.id, { version: 1, name: 'late' }), 'BadRequestError');
    const work = w.api.sessions.create({ agent: agent.id, environment_id: await w.environment() });
    await refused(work, 'BadRequestError');
    assert.equal((await w.api.agents.retrieve(agent.id)).archived_at, gone.archived_at);
  },

  async 'agents.list'(w) {
    const made = [];
    for (let n = 0; n < 5; n++) made.push(await w.agent({ name: `listed ${n}` }));
    await w.api.agents.archive(made[2].id);
    const since = made[0].created_at;
    const page = await w.api.agents.list({ 'created_at[gte]': since, limit: 2 });
    assert.equal(page.data.length, 2);
    assert.ok(page.nextPage);
    const ours = ids(made.filter((agent) => agent !== made[2])).reverse();
    const found = ids(await page.all()).filter((id) => ours.includes(id));
    assert.deepEqual(found, ours, 'newest first, archived ones left out');
    const archived = await w.api.agents.list({ 'created_at[gte]': since, include_archived: true });
    assert.ok(ids(await archived.all()).includes(made[2].id));
    const until = await w.api.agents.list({ 'created_at[gte]': since, 'created_at[lte]': made[1].created_at });
    const early = ids(await until.all());
    assert.ok(early.includes(made[0].id) && !early.includes(made[4].id));
  },

  async 'agents.versions.list'(w) {
    const agent = await w.agent({ system: '0' });
    for (let n = 1; n < 5; n++) await w.api.agents.update(agent.id, { version: n, system: String(n) });
    const page = await w.api.agents.versions.list(agent.id, { limit: 2 });
    const found = (await page.all()).map((item) => [item.version, item.system]);
    assert.deepEqual(found, [[5, '4'], [4, '3'], [3, '2'], [2, '1'], [1, '0']]);
  },
};
