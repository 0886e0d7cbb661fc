// Environments.

import assert from 'node:assert/strict';
import { refused } from '../client.mjs';
import { ids } from '../world.mjs';

export default {
  async 'environments.create'(w) {
    const made = await w.api.environments.create({ name: 'plain', description: 'd', metadata: { a: '1' } });
    assert.deepEqual([made.type, made.name, made.description], ['environment', 'plain', 'd']);
    assert.deepEqual([made.metadata, made.archived_at], [{ a: '1' }, null]);
    assert.deepEqual([made.config.type, made.config.networking.type], ['cloud', 'unrestricted']);
    for (const manager of ['apt', 'cargo', 'gem', 'go', 'npm', 'pip']) {
      assert.deepEqual(made.config.packages[manager], []);
    }
  },

  async 'environments.networking'(w) {
    const cloud = (networking) => ({ type: 'cloud', networking });
    const hosts = ['example.com', '*.example.org'];
    const limited = cloud({ type: 'limited', allowed_hosts: hosts });
    const made = await w.api.environments.create({ name: 'limited', config: limited });
    const closed = { type: 'limited', allowed_hosts: hosts, allow_mcp_servers: false, allow_package_managers: false };
    assert.deepEqual(made.config.networking, closed);
    const change = cloud({ type: 'limited', allow_mcp_servers: true });
    const kept = await w.api.environments.update(made.id, { config: change });
    assert.deepEqual(kept.config.networking, { ...closed, allow_mcp_servers: true }, 'left out means unchanged');
    const bad = cloud({ type: 'limited', allowed_hosts: ['https://example.com/x'] });
    const error = await refused(w.api.environments.create({ name: 'bad', config: bad }), 'BadRequestError');
    assert.match(error.message, /allowed_hosts\.0/);
  },

  async 'environments.retrieve'(w) {
    const made = await w.api.environments.create({ name: 'one' });
    assert.deepEqual(await w.api.environments.retrieve(made.id), made);
  },

  async 'environments.update'(w) {
    const made = await w.api.environments.create({ name: 'a', metadata: { k: '1', l: '2', m: '3' } });
    const metadata = { k: null, l: '', n: '4' };
    const changed = await w.api.environments.update(made.id, { name: 'b', description: 'now', metadata });
    assert.deepEqual([changed.name, changed.description], ['b', 'now']);
    assert.deepEqual(changed.metadata, { m: '3', n: '4' }, 'null and empty delete a key');
    assert.ok(changed.updated_at > made.updated_at);
    const work = w.api.environments.update(made.id, { config: { type: 'self_hosted' } });
    const { errorCode } = await refused(work, 'BadRequestError');
    assert.ok(['invalid_config_type_change', 'not_supported'].includes(errorCode), errorCode);
  },

  async 'environments.list'(w) {
    const made = [];
    for (let n = 0; n < 4; n++) made.push((await w.api.environments.create({ name: `listed ${n}` })).id);
    await w.api.environments.archive(made[1]);
    const page = await w.api.environments.list({ limit: 2 });
    assert.equal(page.data.length, 2);
    assert.ok(page.nextPage);
    const found = ids(await page.all()).filter((id) => made.includes(id));
    assert.deepEqual(found, [made[3], made[2], made[0]]);
    const all = await w.api.environments.list({ include_archived: true, limit: 100 });
    assert.ok(ids(await all.all()).includes(made[1]));
  },

  async 'environments.archive'(w) {
    const made = await w.api.environments.create({ name: 'old' });
    const gone = await w.api.environments.archive(made.id);
    assert.ok(gone.archived_at);
    assert.deepEqual(await w.api.environments.archive(made.id), gone, 'repeating it changes nothing');
    const error = await refused(w.api.environments.update(made.id, { name: 'late' }), 'BadRequestError');
    assert.equal(error.errorCode, 'environment_archived');
    const agent = await w.agent();
    const work = w.api.sessions.create({ agent: agent.id, environment_id: made.id });
    await refused(work, 'BadRequestError');
  },

  async 'environments.delete'(w) {
    const session = await w.session();
    const used = session.environment_id;
    await refused(w.api.environments.delete(used), 'BadRequestError');
    await w.api.sessions.delete(session.id);
    assert.deepEqual(await w.api.environments.delete(used), { id: used, type: 'environment_deleted' });
    await refused(w.api.environments.retrieve(used), 'NotFoundError');
  },
};
