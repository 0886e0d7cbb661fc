// Headers, versions, request ids, repeats.

import assert from 'node:assert/strict';
import { refused } from '../client.mjs';
import { proxy } from '../proxy.mjs';
import { ids, message, of } from '../world.mjs';

export default {
  async 'transport.request_ids'(w) {
    const agent = await w.agent();
    assert.match(agent._request_id, /^req_/);
    const again = await w.api.agents.retrieve(agent.id);
    assert.notEqual(again._request_id, agent._request_id);
    const { response, request_id } = await w.raw.beta.agents.retrieve(agent.id).withResponse();
    assert.equal(response.headers.get('request-id'), request_id);
    assert.match(response.headers.get('content-type'), /^application\/json/);
    const error = await refused(w.api.agents.retrieve('agent_01nothing'), 'NotFoundError');
    assert.match(error.requestID, /^req_/);
  },

  /** Both ways to send the key, both versions, any beta value. */
  async 'transport.headers'(w) {
    const agent = await w.agent();
    const bearer = w.connect({ apiKey: null, authToken: w.key });
    assert.equal((await bearer.agents.retrieve(agent.id)).id, agent.id);
    const old = w.connect({ apiKey: null, authToken: null, defaultHeaders: { 'x-api-key': w.key, authorization: null } });
    assert.equal((await old.agents.retrieve(agent.id)).id, agent.id);
    const speaking = (version) => w.connect({ defaultHeaders: { 'anthropic-version': version } });
    for (const version of ['2023-06-01', '2026-10-21']) {
      assert.equal((await speaking(version).agents.retrieve(agent.id)).id, agent.id);
    }
    await refused(speaking('1999-01-01').agents.retrieve(agent.id), 'BadRequestError');
    const betas = await w.api.agents.retrieve(agent.id, { betas: ['made-up-2026-01-01'] });
    assert.equal(betas.id, agent.id);
    const query = await w.api.agents.retrieve(agent.id, {}, { query: { beta: 'true' } });
    assert.equal(query.id, agent.id);
  },

  /** The server made the object, the answer was lost, the client tries again: one object. */
  async 'transport.retry.lost_answer'(w) {
    const body = { agent: (await w.agent()).id, environment_id: await w.environment() };
    const relay = await proxy(w.url, { cutAnswers: [0] });
    const made = await w.connect({ baseURL: relay.url }).sessions.create(body);
    assert.deepEqual([relay.answersLost, relay.connections], [1, 2]);
    relay.close();
    const page = await w.api.sessions.list({ agent_id: body.agent });
    assert.deepEqual(ids(await page.all()), [made.id]);
  },

  async 'transport.retry.lost_send'(w) {
    const talk = await w.talk();
    const relay = await proxy(w.url, { cutAnswers: [0] });
    const events = [message([{ text: 'Once.' }])];
    const answer = await w.connect({ baseURL: relay.url }).sessions.events.send(talk.id, { events });
    assert.equal(relay.answersLost, 1);
    relay.close();
    await talk.idle();
    talk.close();
    const listed = await w.history(talk.id);
    assert.deepEqual(ids(of(listed, 'user.message')), ids(answer.data));
    assert.equal(of(listed, 'agent.message').length, 1);
  },

  async 'transport.retry.lost_request'(w) {
    const body = { agent: (await w.agent()).id, environment_id: await w.environment() };
    const relay = await proxy(w.url, { cutRequests: [0, 1] });
    const made = await w.connect({ baseURL: relay.url }).sessions.create(body);
    assert.equal(relay.connections, 3);
    relay.close();
    const page = await w.api.sessions.list({ agent_id: body.agent });
    assert.deepEqual(ids(await page.all()), [made.id]);
  },

  /** The same request made twice on purpose is two objects. */
  async 'transport.twice_is_two'(w) {
    const body = { agent: (await w.agent()).id, environment_id: await w.environment() };
    const first = await w.api.sessions.create(body);
    const second = await w.api.sessions.create(body);
    assert.notEqual(first.id, second.id);
    const once = { headers: { 'Idempotency-Key': `of-${body.agent}` } };
    const third = await w.api.sessions.create(body, once);
    const fourth = await w.api.sessions.create(body, once);
    assert.equal(third.id, fourth.id, 'unless an Idempotency-Key says they are one');
  },
};
