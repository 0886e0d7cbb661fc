// Calls: in the sandbox, by the client, with and without permission.

import assert from 'node:assert/strict';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { refused } from '../client.mjs';
import { asking, call, custom, ids, of, one, text, toolset, types } from '../world.mjs';

const bash = (command) => call('bash', { command });

const confirm = (id, result, more = {}) => ({ type: 'user.tool_confirmation', tool_use_id: id, result, ...more });

const answer = (id, words, more = {}) => ({
  type: 'user.custom_tool_result',
  custom_tool_use_id: id,
  content: [{ type: 'text', text: words }],
  ...more,
});

const ended = (event) => event.type === 'session.status_idle' && event.stop_reason.type === 'end_turn';

export default {
  /** One whole session: think, run commands in a real sandbox, answer. */
  async 'tools.bash'(w) {
    const talk = await w.talk([toolset()]);
    const heard = await talk.turn([
      { text: 'I look.', calls: [bash('cd /tmp && export A=1 && pwd')] },
      { calls: [bash('echo "$A in $PWD"; echo oops >&2; false')] },
      { text: 'There is: {{results}}' },
    ]);
    talk.close();
    const [uses, results] = [of(heard, 'agent.tool_use'), of(heard, 'agent.tool_result')];
    assert.deepEqual(uses.map((use) => use.name), ['bash', 'bash']);
    assert.deepEqual(uses[0].input, { command: 'cd /tmp && export A=1 && pwd' });
    assert.ok(uses.every((use) => use.evaluated_permission === 'allow'));
    assert.deepEqual(results.map((result) => result.tool_use_id), ids(uses));
    assert.equal(text(results[0]).trim(), '/tmp');
    assert.ok(!results[0].is_error);
    assert.ok(text(results[1]).includes('1 in /tmp') && text(results[1]).includes('oops'), 'the shell goes on');
    assert.ok(results[1].is_error, 'a command that fails is an error');
    assert.ok(text(of(heard, 'agent.message').at(-1)).includes('1 in /tmp'));
    assert.equal(of(heard, 'span.model_request_start').length, 3);
  },

  async 'tools.files'(w) {
    const talk = await w.talk([toolset()]);
    const heard = await talk.turn([
      { calls: [call('write', { file_path: 'a/b.txt', content: 'one\ntwo\nthree\n' })] },
      { calls: [call('edit', { file_path: 'a/b.txt', old_string: 'two', new_string: '2' })] },
      { calls: [call('read', { file_path: 'a/b.txt' })] },
      { calls: [call('read', { file_path: 'a/b.txt', view_range: [2, 2] })] },
      { calls: [call('glob', { pattern: '**/*.txt' })] },
      { calls: [call('grep', { pattern: '^thr' })] },
      { calls: [call('read', { file_path: 'nowhere' })] },
      { calls: [call('write', { file_path: '/tmp/far', content: 'off' })] },
      { text: 'Done.' },
    ]);
    talk.close();
    const results = of(heard, 'agent.tool_result');
    assert.deepEqual(results.map((result) => Boolean(result.is_error)), [...Array(6).fill(false), true, false]);
    const words = results.map(text);
    assert.ok(words[0].includes('a/b.txt') && words[1].includes('a/b.txt'));
    assert.equal(words[2], 'one\n2\nthree\n');
    assert.equal(words[3].trim(), '2');
    assert.ok(words[4].includes('b.txt') && words[5].includes('three'));
    assert.match(words[6], /no such file/i);
  },

  async 'tools.several_calls'(w) {
    const talk = await w.talk([toolset()]);
    const heard = await talk.turn([
      {
        calls: [
          bash('sleep 0.3; echo slow'),
          call('read', { file_path: '/nowhere' }),
          call('glob', { pattern: '*' }),
          bash('echo last'),
        ],
      },
      { text: '0: {{results.0}} 1: {{results.1}} 3: {{results.3}}' },
    ]);
    talk.close();
    const [uses, results] = [of(heard, 'agent.tool_use'), of(heard, 'agent.tool_result')];
    assert.equal(uses.length, 4);
    assert.deepEqual(results.map((event) => event.tool_use_id), ids(uses));
    assert.ok(results[1].is_error);
    assert.match(text(one(heard, 'agent.message')), /slow[\s\S]*last/);
    const order = types(heard);
    assert.ok(order.indexOf('span.model_request_end') < order.indexOf('agent.tool_result'));
  },

  async 'tools.custom'(w) {
    const talk = await w.talk([custom()]);
    const calls = [call('lookup', { word: 'a' }), call('lookup', { word: 'b' })];
    let heard = await talk.turn([{ calls }, { text: '{{results}}' }]);
    const uses = of(heard, 'agent.custom_tool_use');
    assert.deepEqual(uses.map(({ name, input }) => ({ name, input })), calls);
    assert.equal(heard.at(-1).stop_reason.type, 'requires_action');
    assert.deepEqual(heard.at(-1).stop_reason.event_ids, ids(uses));
    const [first] = await talk.send(answer(uses[1].id, 'second'));
    assert.ok(first.processed_at, 'processed on receipt');
    const partly = await talk.idle();
    assert.deepEqual(partly.at(-1).stop_reason.event_ids, [uses[0].id], 'what is left');
    await talk.send(answer(uses[0].id, 'first', { is_error: true }));
    heard = await talk.idle();
    assert.match(text(one(heard, 'agent.message')), /first[\s\S]*second/);
    await refused(talk.send(answer(uses[0].id, 'once more')), 'BadRequestError');
    talk.close();
    assert.equal(heard.at(-1).stop_reason.type, 'end_turn');
  },

  async 'tools.ask.allow'(w) {
    const talk = await w.talk([asking()]);
    let heard = await talk.turn([{ calls: [bash('echo ran')] }, { text: '{{results}}' }]);
    const use = one(heard, 'agent.tool_use');
    assert.equal(use.evaluated_permission, 'ask');
    assert.deepEqual(heard.at(-1).stop_reason.event_ids, [use.id]);
    assert.deepEqual(of(heard, 'agent.tool_result'), []);
    await talk.send(confirm(use.id, 'allow'));
    heard = await talk.idle();
    talk.close();
    assert.equal(one(heard, 'user.tool_confirmation').result, 'allow');
    assert.equal(text(one(heard, 'agent.tool_result')).trim(), 'ran');
    assert.ok(text(one(heard, 'agent.message')).includes('ran'));
  },

  async 'tools.ask.deny'(w) {
    const talk = await w.talk([asking()]);
    let heard = await talk.turn([{ calls: [bash('echo ran')] }, { text: '{{results}}' }]);
    const use = one(heard, 'agent.tool_use');
    await talk.send(confirm(use.id, 'deny', { deny_message: 'Use a copy.' }));
    heard = await talk.idle();
    const denied = one(heard, 'agent.tool_result');
    assert.deepEqual([denied.tool_use_id, denied.is_error], [use.id, true]);
    assert.ok(text(denied).includes('Use a copy.'));
    assert.ok(text(one(heard, 'agent.message')).includes('Use a copy.'));
    await refused(talk.send(confirm(use.id, 'allow')), 'BadRequestError');
    await refused(talk.send(confirm(use.id, 'allow', { deny_message: 'no' })), 'BadRequestError');
    talk.close();
  },

  async 'tools.ask.partial'(w) {
    const talk = await w.talk([asking()]);
    let heard = await talk.turn([{ calls: [0, 1, 2].map((n) => bash(`echo ${n}`)) }, { text: '{{results}}' }]);
    const asked = ids(of(heard, 'agent.tool_use'));
    assert.deepEqual(heard.at(-1).stop_reason.event_ids, asked);
    await talk.send(confirm(asked[1], 'allow'));
    const { stop_reason } = (await talk.idle()).at(-1);
    assert.deepEqual(stop_reason, { type: 'requires_action', event_ids: [asked[0], asked[2]] });
    await talk.send(confirm(asked[2], 'deny'), confirm(asked[0], 'allow'));
    heard = await talk.until(ended);
    talk.close();
    const results = of(talk.heard, 'agent.tool_result').map((event) => [event.tool_use_id, Boolean(event.is_error)]);
    assert.deepEqual(Object.fromEntries(results), { [asked[0]]: false, [asked[1]]: false, [asked[2]]: true });
    assert.equal(results.length, 3);
    assert.ok(one(heard, 'agent.message'));
  },

  /** There is no judge yet, so `auto` asks, and says why. */
  async 'tools.ask.auto'(w) {
    const kit = toolset({ default_config: { permission_policy: { type: 'auto' } } });
    const talk = await w.talk([kit]);
    const heard = await talk.turn([{ calls: [bash('echo ran')] }, { text: 'Done.' }]);
    const use = one(heard, 'agent.tool_use');
    await talk.send(confirm(use.id, 'allow'));
    await talk.idle();
    talk.close();
    assert.equal(use.evaluated_permission, 'ask');
    const judged = { type: 'ask', reason_code: 'indeterminate' };
    assert.deepEqual(use.evaluation, { type: 'auto', evaluated_permission: judged });
  },

  /** Web tools are stored with their settings, and not offered. */
  async 'tools.web'(w) {
    const configs = [
      { name: 'web_fetch', allowed_domains: ['example.com'], max_content_tokens: 1000 },
      { name: 'web_search', blocked_domains: ['example.org'] },
    ];
    const talk = await w.talk([toolset({ configs })]);
    const session = await w.api.sessions.retrieve(talk.id);
    const heard = await talk.turn([{ text: '{{tools}}' }]);
    talk.close();
    const fetch = session.agent.tools[0].configs.find((entry) => entry.name === 'web_fetch');
    assert.deepEqual(fetch.allowed_domains, ['example.com']);
    const offered = text(one(heard, 'agent.message'));
    assert.ok(offered.includes('bash') && !offered.includes('web'), offered);
  },

  async 'tools.not_enabled'(w) {
    const only = toolset({ default_config: { enabled: false }, configs: [{ name: 'read', enabled: true }] });
    const talk = await w.talk([only]);
    const heard = await talk.turn([{ calls: [bash('echo ran')] }, { text: '{{tools}} | {{results}}' }]);
    talk.close();
    assert.equal(one(heard, 'agent.tool_use').evaluated_permission, 'deny');
    assert.ok(one(heard, 'agent.tool_result').is_error);
    assert.match(text(one(heard, 'agent.message')), /^read \| /);
  },

  async 'tools.big_output'(w) {
    const talk = await w.talk([toolset()]);
    const heard = await talk.turn([
      { calls: [bash('yes 0123456789abcdef | head -c 30000000')] },
      { calls: [bash('echo alive')] },
      { text: 'Done.' },
    ]);
    talk.close();
    const [first, second] = of(heard, 'agent.tool_result').map(text);
    assert.ok(first.length > 1000 && first.length <= 110_000, String(first.length));
    assert.equal(second.trim(), 'alive');
  },

  /** The client's own helper answers calls of a custom tool, over the stream it opens itself. */
  async 'tools.runner'(w) {
    const lookup = betaTool({
      name: 'lookup',
      description: 'Looks up.',
      inputSchema: { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] },
      run: ({ word }) => `${word} means ${[...word].reverse().join('')}`,
    });
    const session = await w.session([custom()]);
    const find = (word) => call('lookup', { word });
    const talk = await w.follow(session.id);
    await talk.say([{ calls: [find('abc')] }, { calls: [find('xyz'), find('opq')] }, { text: '{{results}}' }]);
    const runner = w.raw.beta.sessions.events.toolRunner(session.id, { tools: [lookup], maxIdleMs: 500 });
    const calls = [];
    for await (const dispatched of runner) calls.push(dispatched);
    w.seen.calls.add('sessions.events.tool_runner');
    const heard = await talk.until(ended);
    talk.close();
    assert.deepEqual(calls.map((item) => [item.name, item.posted, item.isError]), Array(3).fill(['lookup', true, false]));
    assert.ok(text(of(heard, 'agent.message').at(-1)).includes('zyx'));
  },
};
