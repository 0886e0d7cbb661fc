// Every class of error that this server gives, as the client raises it.

import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { refused } from '../client.mjs';
import { custom, message, toolset } from '../world.mjs';

/** The error object of the body, after a look at what surrounds it. */
function inner(error) {
  assert.match(error.requestID, /^req_/);
  assert.equal(error.error.type, 'error');
  assert.equal(error.error.request_id, error.requestID);
  assert.match(error.headers.get('content-type'), /^application\/json/);
  return error.error.error;
}

/** Each call must be refused, in words that name the field; spaces only tell the keys apart. */
async function named(cases, check = () => {}) {
  for (const [field, work] of Object.entries(cases)) {
    const found = inner(await refused(work(), 'BadRequestError'));
    assert.equal(found.type, 'invalid_request_error');
    assert.ok(found.message.includes(field.trim()), `\`${field}\` in ${found.message}`);
    check(found);
  }
}

export default {
  async 'errors.authentication'(w) {
    const stranger = w.connect({ apiKey: 'not-the-key-of-this-server' });
    const error = await refused(stranger.agents.list(), 'AuthenticationError');
    assert.equal(inner(error).type, 'authentication_error');
  },

  async 'errors.not_found'(w) {
    const session = await w.session();
    const { agents, environments, sessions } = w.api;
    for (const work of [
      () => agents.retrieve('agent_01nothing'),
      () => environments.retrieve('env_01nothing'),
      () => sessions.retrieve('sesn_01nothing'),
      () => sessions.events.list('sesn_01nothing'),
      () => sessions.events.stream('sesn_01nothing'),
      () => sessions.threads.events.stream('sthr_01nothing', { session_id: session.id }),
      () => agents.update('agent_01nothing', { version: 1 }),
      () => sessions.archive('sesn_01nothing'),
    ]) {
      assert.equal(inner(await refused(work(), 'NotFoundError')).type, 'not_found_error');
    }
  },

  async 'errors.bad_request'(w) {
    const { agents, sessions } = w.api;
    const agent = (fields) => () => agents.create({ name: 'x', model: 'scripted', ...fields });
    await named({
      name: agent({ name: '' }),
      'name ': agent({ name: 'x'.repeat(257) }),
      system: agent({ system: 'x'.repeat(100_001) }),
      'tools.1': agent({ tools: [toolset(), { type: 'no' }] }),
      effort: agent({ model: { id: 'scripted', effort: 'huge' } }),
      limit: () => agents.list({ limit: 101 }),
      order: () => sessions.list({ order: 'sideways' }),
      statuses: () => sessions.list({ statuses: ['asleep'] }),
      created_at: () => sessions.list({ 'created_at[gt]': 'yesterday' }),
      agent_version: () => sessions.list({ agent_version: 1 }),
    });
  },

  /** A field or parameter that means nothing here is named, never dropped. */
  async 'errors.unknown_fields'(w) {
    const { id } = await w.session();
    const { agents, sessions } = w.api;
    const text = { type: 'text', text: 'x', colour: 'red' };
    const query = { query: { colour: 'red' } };
    await named({
      colour: () => agents.create({ name: 'x', model: 'scripted', colour: 1 }),
      'colour ': () => agents.list({ colour: 'red' }),
      'events.0.content.0.colour': () =>
        sessions.events.send(id, { events: [{ type: 'user.message', content: [text] }] }),
      'tools.0.colour': () => agents.create({ name: 'x', model: 'scripted', tools: [{ ...custom(), colour: 1 }] }),
      'colour  ': () => sessions.events.list(id, { colour: 'red' }),
      'colour   ': () => sessions.events.stream(id, {}, query),
    });
  },

  /** What a later version brings is refused by name; null and empty pass. */
  async 'errors.not_supported'(w) {
    const base = { agent: (await w.agent()).id, environment_id: await w.environment() };
    const empty = { vault_ids: [], resources: [], budget: null };
    const { id } = await w.api.sessions.create({ ...base, ...empty });
    const session = (fields) => () => w.api.sessions.create({ ...base, ...fields });
    const agent = (fields) => () => w.api.agents.create({ name: 'x', model: 'scripted', ...fields });
    const environment = (config) => () => w.api.environments.create({ name: 'x', config });
    const send = (event) => () => w.api.sessions.events.send(id, { events: [event] });
    const budget = { type: 'limit', max_list_cost: { amount: '100', currency: 'USD' } };
    const rubric = { type: 'text', content: 'r' };
    const cases = {
      budget: session({ budget }),
      resources: session({ resources: [{ type: 'memory_store', memory_store_id: 'memstore_01x' }] }),
      mcp_servers: agent({ mcp_servers: [{ type: 'url', name: 'm', url: 'https://example.com/mcp' }] }),
      'tools.0.type': agent({ tools: [{ type: 'mcp_toolset', mcp_server_name: 'm' }] }),
      skills: agent({ skills: [{ type: 'anthropic', skill_id: 'xlsx' }] }),
      multiagent: agent({ multiagent: { type: 'coordinator', agents: [{ type: 'self' }] } }),
      'self-hosted': environment({ type: 'self_hosted' }),
      packages: environment({ type: 'cloud', packages: { apt: ['jq'] } }),
      'events.0.type': send({ type: 'user.define_outcome', description: 'd', rubric }),
      'events.0.type ': send({ type: 'user.tool_result', tool_use_id: 'sevt_01x' }),
    };
    await named(cases, (found) => assert.equal(found.details.error_code, 'not_supported'));
  },

  async 'errors.invalid_metadata'(w) {
    const many = Object.fromEntries(Array.from({ length: 17 }, (_, n) => [String(n), '']));
    for (const metadata of [many, { ['k'.repeat(65)]: 'v' }, { k: 'v'.repeat(513) }]) {
      const error = await refused(w.agent({ metadata }), 'BadRequestError');
      assert.equal(inner(error).details.error_code, 'invalid_metadata');
    }
  },

  /** Newer clients have a class for each error code; they find them. */
  async 'errors.typed_codes'(w) {
    const { environments } = w.api;
    const gone = await environments.create({ name: 'gone' });
    await environments.archive(gone.id);
    const id = await w.environment();
    const cases = {
      BetaEnvironmentNotFoundError: () => environments.retrieve('env_01nothing'),
      BetaEnvironmentArchivedError: () => environments.update(gone.id, { name: 'late' }),
      BetaInvalidConfigTypeChangeError: () => environments.update(id, { config: { type: 'self_hosted' } }),
      BetaInvalidMetadataError: () => environments.update(id, { metadata: { ['k'.repeat(65)]: 'v' } }),
    };
    for (const [name, work] of Object.entries(cases)) {
      const error = await refused(work(), 'APIError');
      assert.ok(error instanceof Anthropic.Beta[name], `${error.name} in place of ${name}`);
      assert.ok(error.errorCode && error.details);
    }
  },

  async 'errors.conflict'(w) {
    const agent = await w.agent();
    const error = await refused(w.api.agents.update(agent.id, { version: 7, name: 'x' }), 'ConflictError');
    assert.equal(inner(error).type, 'conflict_error');
  },

  async 'errors.too_large'(w) {
    const { id } = await w.session();
    const work = w.api.sessions.events.send(id, { events: [message('x'.repeat(33 * 1024 * 1024))] });
    const error = await refused(work, 'APIError');
    assert.deepEqual([error.status, inner(error).type], [413, 'request_too_large']);
  },

  /** Parts of the API that are not there yet say so under their own code. */
  async 'errors.later_parts'(w) {
    const environment = await w.environment();
    for (const work of [
      () => w.api.memoryStores.list(),
      () => w.api.deployments.list(),
      () => w.api.deploymentRuns.list(),
      () => w.api.dreams.list(),
      () => w.api.environments.work.list(environment),
      () => w.api.environments.work.stats(environment),
      () => w.raw.skills.list(),
    ]) {
      const error = await refused(work(), 'NotFoundError');
      assert.equal(inner(error).details.error_code, 'not_supported');
    }
  },
};
