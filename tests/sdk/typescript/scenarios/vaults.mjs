// Vaults and the credentials in them.

import assert from 'node:assert/strict';
import { refused } from '../client.mjs';
import { ids } from '../world.mjs';

/** Stands for every secret of these scenarios; nothing that comes back may hold it. */
const SECRET = 'canary-7c1f0d5e';
const URL = 'https://MCP.example.com/mcp/';

const bearer = (mcp_server_url = URL) => ({ type: 'static_bearer', mcp_server_url, token: SECRET });

const limited = (...allowed_hosts) => ({ type: 'limited', allowed_hosts });

const variable = (fields) => ({
  type: 'environment_variable',
  secret_name: 'API_TOKEN',
  secret_value: SECRET,
  networking: limited('api.example.com', '*.example.org'),
  ...fields,
});

const oauth = (fields) => ({
  type: 'mcp_oauth',
  mcp_server_url: 'https://oauth.example.com/mcp',
  access_token: SECRET,
  expires_at: '2099-01-01T00:00:00Z',
  refresh: {
    client_id: 'client',
    refresh_token: SECRET,
    token_endpoint: 'https://login.example.com/token',
    token_endpoint_auth: { type: 'client_secret_basic', client_secret: SECRET },
    scope: 'read write',
  },
  ...fields,
});

const vault = async (w, fields) => (await w.api.vaults.create({ display_name: 'scenario', ...fields })).id;

async function credential(w, vault_id, auth, fields) {
  const made = await w.api.vaults.credentials.create(vault_id, { auth, ...fields });
  assert.ok(!JSON.stringify(made).includes(SECRET), 'a secret came back');
  return made;
}

export default {
  async 'vaults.create'(w) {
    const made = await w.api.vaults.create({ display_name: 'Ada', metadata: { user: '7' } });
    assert.deepEqual([made.type, made.display_name, made.metadata], ['vault', 'Ada', { user: '7' }]);
    assert.match(made.id, /^vlt_/);
    assert.deepEqual([made.archived_at, made.created_at], [null, made.updated_at]);
    for (const display_name of ['', 'x'.repeat(256)]) {
      const error = await refused(w.api.vaults.create({ display_name }), 'BadRequestError');
      assert.match(error.message, /display_name/);
    }
  },

  async 'vaults.retrieve'(w) {
    const made = await w.api.vaults.create({ display_name: 'one' });
    assert.deepEqual(await w.api.vaults.retrieve(made.id), made);
  },

  async 'vaults.update'(w) {
    const made = await w.api.vaults.create({ display_name: 'a', metadata: { k: '1', l: '2' } });
    const change = { display_name: 'b', metadata: { k: null, n: '3' } };
    const changed = await w.api.vaults.update(made.id, change);
    assert.deepEqual([changed.display_name, changed.metadata], ['b', { l: '2', n: '3' }]);
    assert.ok(changed.updated_at > made.updated_at);
    assert.deepEqual(await w.api.vaults.update(made.id, { display_name: 'b' }), changed, 'nothing changed');
  },

  async 'vaults.list'(w) {
    const made = [];
    for (let n = 0; n < 4; n++) made.push(await vault(w, { display_name: `listed ${n}` }));
    await w.api.vaults.archive(made[1]);
    const page = await w.api.vaults.list({ limit: 2 });
    assert.equal(page.data.length, 2);
    assert.ok(page.nextPage);
    const found = ids(await page.all()).filter((id) => made.includes(id));
    assert.deepEqual(found, [made[3], made[2], made[0]]);
    const all = await w.api.vaults.list({ include_archived: true, limit: 100 });
    assert.ok(ids(await all.all()).includes(made[1]));
  },

  async 'vaults.archive'(w) {
    const vault_id = await vault(w);
    const held = await credential(w, vault_id, bearer());
    const gone = await w.api.vaults.archive(vault_id);
    assert.ok(gone.archived_at);
    assert.deepEqual(await w.api.vaults.archive(vault_id), gone, 'repeating it changes nothing');
    const inner = await w.api.vaults.credentials.retrieve(held.id, { vault_id });
    assert.ok(inner.archived_at, 'its credentials go with it');
    await refused(w.api.vaults.update(vault_id, { display_name: 'late' }), 'BadRequestError');
    await refused(w.api.vaults.credentials.create(vault_id, { auth: variable() }), 'BadRequestError');
  },

  async 'vaults.delete'(w) {
    const vault_id = await vault(w);
    const held = await credential(w, vault_id, bearer());
    assert.deepEqual(await w.api.vaults.delete(vault_id), { id: vault_id, type: 'vault_deleted' });
    await refused(w.api.vaults.retrieve(vault_id), 'NotFoundError');
    await refused(w.api.vaults.credentials.retrieve(held.id, { vault_id }), 'NotFoundError');
  },

  async 'vaults.sessions'(w) {
    const [one, two, closed] = [await vault(w), await vault(w), await vault(w)];
    await w.api.vaults.archive(closed);
    const { id } = await w.agent();
    const base = { agent: id, environment_id: await w.environment() };
    const session = await w.api.sessions.create({ ...base, vault_ids: [two, one] });
    assert.deepEqual(session.vault_ids, [two, one], 'in the order in which they are looked through');
    await w.api.vaults.archive(two);
    await w.api.vaults.delete(one);
    const kept = await w.api.sessions.retrieve(session.id);
    assert.deepEqual(kept.vault_ids, [two, one], 'what becomes of a vault changes no session');
    await refused(w.api.sessions.create({ ...base, vault_ids: [closed] }), 'BadRequestError');
    await refused(w.api.sessions.create({ ...base, vault_ids: ['vlt_01nothing'] }), 'NotFoundError');
    await refused(w.api.sessions.update(session.id, { vault_ids: [closed] }), 'BadRequestError');
  },

  async 'vaults.credentials.create'(w) {
    const id = await vault(w);
    const token = await credential(w, id, bearer(), { display_name: 'token', metadata: { k: 'v' } });
    assert.deepEqual([token.type, token.vault_id, token.display_name], ['vault_credential', id, 'token']);
    assert.deepEqual([token.metadata, token.archived_at], [{ k: 'v' }, null]);
    assert.deepEqual(token.auth, { type: 'static_bearer', mcp_server_url: URL }, 'byte for byte');
    const full = await credential(w, id, oauth());
    assert.match(full.auth.expires_at, /^2099-01-01T00:00:00/);
    assert.equal(full.display_name, null);
    assert.deepEqual(full.auth.refresh, {
      client_id: 'client',
      token_endpoint: 'https://login.example.com/token',
      token_endpoint_auth: { type: 'client_secret_basic' },
      resource: null,
      scope: 'read write',
    });
    const bare = { mcp_server_url: 'https://bare.example.com', expires_at: null, refresh: null };
    const { auth } = await credential(w, id, oauth(bare));
    assert.deepEqual([auth.expires_at, auth.refresh], [undefined, null]);
    const everywhere = await credential(w, id, variable());
    assert.deepEqual(everywhere.auth.networking, limited('api.example.com', '*.example.org'));
    assert.deepEqual(everywhere.auth.injection_location, { body: true, header: true });
    const header = variable({ secret_name: 'B', injection_location: { header: true } });
    const { auth: there } = await credential(w, id, header);
    assert.deepEqual(there.injection_location, { body: false, header: true });
  },

  async 'vaults.credentials.refused'(w) {
    const id = await vault(w);
    const hosts = (...names) => variable({ networking: limited(...names) });
    const cases = {
      'auth.token': { ...bearer(), token: '' },
      'auth.mcp_server_url': bearer('mcp.example.com'),
      'auth.expires_at': oauth({ expires_at: '2020-01-01T00:00:00Z' }),
      'auth.networking.allowed_hosts': hosts(...Array(17).fill('a.example.com')),
      'auth.networking.allowed_hosts.0': hosts('https://a.example.com'),
      'auth.injection_location': variable({ injection_location: { header: false, body: false } }),
    };
    for (const [field, auth] of Object.entries(cases)) {
      const error = await refused(w.api.vaults.credentials.create(id, { auth }), 'BadRequestError');
      assert.ok(error.message.includes(field) && !error.message.includes(SECRET), error.message);
    }
  },

  async 'vaults.credentials.unique'(w) {
    const vault_id = await vault(w);
    const { credentials } = w.api.vaults;
    const first = await credential(w, vault_id, bearer());
    const error = await refused(credentials.create(vault_id, { auth: bearer() }), 'ConflictError');
    assert.equal(error.headers.get('x-should-retry'), 'false');
    await credentials.archive(first.id, { vault_id });
    await credential(w, vault_id, bearer());
    for (let n = 0; n < 19; n++) await credential(w, vault_id, variable({ secret_name: `V${n}` }));
    const more = credentials.create(vault_id, { auth: variable({ secret_name: 'V19' }) });
    await refused(more, 'BadRequestError');
    await credential(w, await vault(w), bearer());
  },

  async 'vaults.credentials.retrieve'(w) {
    const [vault_id, other] = [await vault(w), await vault(w)];
    const made = await credential(w, vault_id, oauth());
    const { credentials } = w.api.vaults;
    assert.deepEqual(await credentials.retrieve(made.id, { vault_id }), made);
    await refused(credentials.retrieve(made.id, { vault_id: other }), 'NotFoundError');
  },

  async 'vaults.credentials.update'(w) {
    const vault_id = await vault(w);
    const { credentials } = w.api.vaults;
    const made = await credential(w, vault_id, variable(), { metadata: { k: '1' } });
    const changed = await credentials.update(made.id, {
      vault_id,
      display_name: 'named',
      metadata: { k: null, l: '2' },
      auth: {
        type: 'environment_variable',
        secret_value: SECRET,
        networking: { type: 'unrestricted' },
        injection_location: { body: false },
      },
    });
    assert.deepEqual([changed.display_name, changed.metadata], ['named', { l: '2' }]);
    assert.deepEqual(changed.auth.networking, { type: 'unrestricted' }, 'replaced as a whole');
    assert.deepEqual(changed.auth.injection_location, { body: false, header: true }, 'merged');
    assert.ok(changed.updated_at > made.updated_at && !JSON.stringify(changed).includes(SECRET));
    assert.deepEqual(await credentials.update(made.id, { vault_id }), changed, 'nothing changed');
    const token = await credential(w, vault_id, oauth());
    const auth = { type: 'mcp_oauth', access_token: SECRET, refresh: { scope: '' } };
    const renewed = await credentials.update(token.id, { vault_id, auth });
    assert.equal(renewed.auth.expires_at, token.auth.expires_at, 'a new token keeps the old end');
    assert.equal(renewed.auth.refresh.scope, null, 'an empty scope clears it');
    const wrong = { vault_id, auth: { type: 'static_bearer', token: SECRET } };
    const error = await refused(credentials.update(token.id, wrong), 'BadRequestError');
    assert.ok(error.message.includes('auth.type') && !error.message.includes(SECRET));
  },

  async 'vaults.credentials.list'(w) {
    const vault_id = await vault(w);
    const { credentials } = w.api.vaults;
    const made = [];
    for (let n = 0; n < 4; n++) made.push((await credential(w, vault_id, variable({ secret_name: `V${n}` }))).id);
    await credentials.archive(made[1], { vault_id });
    await credential(w, await vault(w), bearer());
    const page = await credentials.list(vault_id, { limit: 2 });
    assert.equal(page.data.length, 2);
    assert.ok(page.nextPage);
    assert.deepEqual(ids(await page.all()), [made[3], made[2], made[0]]);
    const all = await credentials.list(vault_id, { include_archived: true });
    assert.deepEqual(ids(await all.all()), made.toReversed());
    await refused(credentials.list('vlt_01nothing'), 'NotFoundError');
  },

  async 'vaults.credentials.archive'(w) {
    const vault_id = await vault(w);
    const { credentials } = w.api.vaults;
    const made = await credential(w, vault_id, bearer());
    const gone = await credentials.archive(made.id, { vault_id });
    assert.ok(gone.archived_at);
    assert.deepEqual(gone.auth, made.auth);
    assert.deepEqual(await credentials.archive(made.id, { vault_id }), gone, 'repeating it changes nothing');
    const auth = { type: 'static_bearer', token: SECRET };
    await refused(credentials.update(made.id, { vault_id, auth }), 'BadRequestError');
  },

  async 'vaults.credentials.delete'(w) {
    const vault_id = await vault(w);
    const { credentials } = w.api.vaults;
    const made = await credential(w, vault_id, bearer());
    const answer = await credentials.delete(made.id, { vault_id });
    assert.deepEqual(answer, { id: made.id, type: 'vault_credential_deleted' });
    await refused(credentials.retrieve(made.id, { vault_id }), 'NotFoundError');
  },

  async 'vaults.credentials.mcp_oauth_validate'(w) {
    const vault_id = await vault(w);
    const { credentials } = w.api.vaults;
    // Nobody answers at that port, so nobody can tell.
    const made = await credential(w, vault_id, oauth({ mcp_server_url: 'http://127.0.0.1:9/mcp' }));
    const tried = await credentials.mcpOAuthValidate(made.id, { vault_id });
    assert.deepEqual([tried.type, tried.status], ['vault_credential_validation', 'unknown']);
    assert.deepEqual([tried.credential_id, tried.vault_id], [made.id, vault_id]);
    assert.deepEqual([tried.has_refresh_token, tried.refresh], [true, null]);
    assert.deepEqual(tried.mcp_probe, { method: 'initialize', http_response: null });
    assert.ok(!JSON.stringify(tried).includes(SECRET));
    const other = await credential(w, vault_id, bearer());
    await refused(credentials.mcpOAuthValidate(other.id, { vault_id }), 'BadRequestError');
  },
};
