// What a scenario works with: a client, a server, and things made on it.

import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { Passing, Seen, watch } from './client.mjs';

/** Milliseconds until a scenario gives up waiting; generous, because nothing here measures speed. */
const PATIENCE = 60_000;

/** One scenario's view of the client and the server. */
export class World {
  constructor(url, key, types) {
    Object.assign(this, { url, key });
    this.seen = new Seen(types);
    this.raw = this.client();
    this.api = watch(this.raw.beta, this.seen);
    this.messages = watch(this.raw.messages, new Passing(this.seen), 'messages');
    this.models = watch(this.raw.models, this.seen, 'models');
  }

  client(options = {}) {
    return new Anthropic({ baseURL: this.url, apiKey: this.key, authToken: null, maxRetries: 2, ...options });
  }

  /** Makes a client with other options. */
  connect(options) {
    return watch(this.client(options).beta, this.seen);
  }

  /** Has a message streamed by the client's helper; returns its text as it came, and all of it. */
  async streamed(request) {
    this.seen.calls.add('messages.stream');
    let text = '';
    const stream = this.raw.messages.stream(request).on('text', (piece) => (text += piece));
    const message = await stream.finalMessage();
    return [text, message];
  }

  agent(fields = {}) {
    return this.api.agents.create({ name: 'scenario', model: 'scripted', ...fields });
  }

  async environment() {
    this.made ??= this.api.environments.create({ name: 'scenario' });
    return (await this.made).id;
  }

  /** Makes a session of a new agent with these tools. */
  async session(tools = [], fields = {}) {
    const agent = await this.agent({ tools });
    return this.api.sessions.create({ agent: agent.id, environment_id: await this.environment(), ...fields });
  }

  /** Makes a session and opens its stream. */
  async talk(tools = [], query = {}) {
    return this.follow((await this.session(tools)).id, query);
  }

  /** Opens a stream of a session. */
  async follow(id, query = {}, options = {}) {
    return new Talk(this, id, await this.api.sessions.events.stream(id, query, options));
  }

  /** Lists all events of a session, page by page. */
  async history(id, query = {}) {
    return (await this.api.sessions.events.list(id, query)).all();
  }
}

/** A session and an open stream of it. */
class Talk {
  constructor(world, id, events) {
    Object.assign(this, { world, id, events, heard: [] });
  }

  /** Sends events and returns them as they were accepted. */
  async send(...events) {
    return (await this.world.api.sessions.events.send(this.id, { events })).data;
  }

  /** Sends a message; an array is a script for the model. */
  async say(text) {
    return (await this.send(message(text)))[0];
  }

  /** Reads the stream up to an event of a type, or one that fits. */
  async until(wanted) {
    const fits = typeof wanted === 'function' ? wanted : (event) => event.type === wanted;
    const found = [];
    for (;;) {
      const event = await patient(this.events.next(), () => `waited for ${wanted} after ${types(found)}`);
      assert.ok(event, `the stream ended before ${wanted}: ${types(found)}`);
      this.heard.push(event);
      found.push(event);
      if (fits(event)) return found;
    }
  }

  /** Reads up to the end of the turn. */
  idle() {
    return this.until('session.status_idle');
  }

  /** Sends a message and reads up to the end of the turn. */
  async turn(text) {
    await this.say(text);
    return this.idle();
  }

  close() {
    this.events.close();
  }
}

/** Awaits something, but not for ever. */
export async function patient(work, words) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(words())), PATIENCE);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** Writes a script down, so that it is found between other words too. */
export const script = (steps) => `\`\`\`script\n${JSON.stringify(steps)}\n\`\`\``;

/** Makes a message of the user; an array is a script for the model. */
export const message = (text) => ({
  type: 'user.message',
  content: [{ type: 'text', text: typeof text === 'string' ? text : script(text) }],
});

/** Makes a call of a script. */
export const call = (name, input) => ({ name, input });

/** The sandbox's tools. */
export const toolset = (fields = {}) => ({ type: 'agent_toolset_20260401', ...fields });

/** The sandbox's tools, each of which asks. */
export const asking = () => toolset({ default_config: { permission_policy: { type: 'always_ask' } } });

/** A tool that the client carries out. */
export const custom = (name = 'lookup') => ({
  type: 'custom',
  name,
  description: 'Looks up.',
  input_schema: { type: 'object', properties: { word: { type: 'string' } } },
});

/** The types of events, in order. */
export const types = (events) => events.map((event) => event.type);

/** Those events that are of a type. */
export const of = (events, type) => events.filter((event) => event.type === type);

/** The only event of a type. */
export function one(events, type) {
  const found = of(events, type);
  assert.equal(found.length, 1, `${found.length} events of type ${type} in ${types(events)}`);
  return found[0];
}

/** The ids of things. */
export const ids = (items) => items.map((item) => item.id);

/** The text of an event's content. */
export const text = (event) =>
  (event.content ?? []).filter((block) => block.type === 'text').map((block) => block.text).join('');
