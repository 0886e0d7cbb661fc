// Files: uploaded, mounted in sessions, made by agents, named in messages.

import assert from 'node:assert/strict';
import { toFile } from '@anthropic-ai/sdk';
import { refused } from '../client.mjs';
import { call, ids, of, one, script, text, toolset } from '../world.mjs';

const UNKNOWN = 'file_010000000000000000000001';
const UPLOADS = '/mnt/session/uploads';

async function upload(w, name = 'a.txt', content = 'hello\n', type = 'text/plain', more = {}) {
  return w.api.files.upload({ file: await toFile(Buffer.from(content), name, { type }), ...more });
}

const content = async (w, id) => Buffer.from(await (await w.api.files.download(id)).arrayBuffer());

const mount = (id, path) => ({ type: 'file', file_id: id, ...(path ? { mount_path: path } : {}) });

const bash = (command) => call('bash', { command });

export default {
  async 'files.upload'(w) {
    const made = await upload(w, 'some/where/a b.csv', '1,2\n', 'text/csv');
    assert.deepEqual([made.type, made.filename, made.mime_type, made.size_bytes], ['file', 'a b.csv', 'text/csv', 4]);
    assert.deepEqual([made.downloadable, made.scope], [false, null]);
    const empty = await upload(w, 'empty.bin', '', 'application/octet-stream');
    assert.equal(empty.size_bytes, 0);
    assert.equal((await upload(w, "\u{1f980} '$(x).txt")).filename, "\u{1f980} '$(x).txt");
    assert.equal((await upload(w, 'large.bin', Buffer.alloc(5_000_000, 7))).size_bytes, 5_000_000);
  },

  async 'files.upload.expiry'(w) {
    const made = await upload(w, 'a', 'x', 'text/plain', { expires_in_seconds: 3600 });
    assert.equal(Date.parse(made.expires_at) - Date.parse(made.created_at), 3_600_000);
    for (const bad of [3599, 7_776_001]) {
      const error = await refused(upload(w, 'a', 'x', 'text/plain', { expires_in_seconds: bad }), 'BadRequestError');
      assert.match(error.message, /expires_in_seconds/);
    }
  },

  async 'files.retrieve_metadata'(w) {
    const made = await upload(w);
    assert.deepEqual(await w.api.files.retrieveMetadata(made.id), made);
    await refused(w.api.files.retrieveMetadata(UNKNOWN), 'NotFoundError');
  },

  async 'files.list'(w) {
    const made = [];
    for (let n = 0; n < 5; n++) made.push((await upload(w)).id);
    const page = await w.api.files.list({ limit: 2 });
    assert.equal(page.data.length, 2);
    const found = ids(await page.all()).filter((id) => made.includes(id));
    assert.deepEqual(found, made.toReversed());
    const session = await w.session();
    assert.deepEqual((await w.api.files.list({ scope_id: session.id })).data, []);
  },

  async 'files.list.ids'(w) {
    const made = [];
    for (let n = 0; n < 3; n++) made.push((await upload(w)).id);
    const page = await w.api.files.list({ ids: [made[0], UNKNOWN, made[2], made[0]] });
    assert.deepEqual(ids(page.data), [made[2], made[0]]);
    assert.equal(page.nextPage, null);
    await refused(w.api.files.list({ ids: made, limit: 2 }), 'BadRequestError');
  },

  async 'files.delete'(w) {
    const made = await upload(w);
    assert.deepEqual(await w.api.files.delete(made.id), { id: made.id, type: 'file_deleted' });
    await refused(w.api.files.retrieveMetadata(made.id), 'NotFoundError');
    await refused(w.api.files.delete(made.id), 'NotFoundError');
  },

  async 'files.download.refused'(w) {
    const made = await upload(w);
    const error = await refused(w.api.files.download(made.id), 'BadRequestError');
    assert.equal(error.errorCode, 'file_not_downloadable');
    await refused(w.api.files.download(UNKNOWN), 'NotFoundError');
  },

  async 'files.session'(w) {
    const data = Buffer.from(Array.from({ length: 76_800 }, (_, n) => n % 256));
    const given = await upload(w, 'in.bin', data, 'application/octet-stream');
    const session = await w.session([toolset()], { resources: [mount(given.id, '/data/in.bin')] });
    const talk = await w.follow(session.id);
    const input = `${UPLOADS}/data/in.bin`;
    const heard = await talk.turn([
      { calls: [bash(`echo x > ${UPLOADS}/data/new`)] },
      { calls: [bash(`cd /mnt/session/outputs && cat ${input} ${input} > out.bin && mkdir sub && echo hi > 'sub/a b.txt'`)] },
      { text: 'Done.' },
    ]);
    const results = of(heard, 'agent.tool_result');
    assert.match(text(results[0]), /Read-only file system/);
    assert.ok(!results[1].is_error);
    const files = await (await w.api.files.list({ scope_id: session.id })).all();
    assert.ok(files.every((file) => file.scope.id === session.id));
    const made = Object.fromEntries(files.filter((file) => file.downloadable).map((file) => [file.filename, file]));
    assert.deepEqual(Object.keys(made).sort(), ['out.bin', 'sub/a b.txt']);
    assert.ok((await content(w, made['out.bin'].id)).equals(Buffer.concat([data, data])));
    assert.equal(String(await content(w, made['sub/a b.txt'].id)), 'hi\n');
    await talk.turn([{ calls: [bash('echo new > /mnt/session/outputs/out.bin')] }, { text: 'Done.' }]);
    talk.close();
    // Listing by session waits for what is being published.
    await w.api.files.list({ scope_id: session.id });
    assert.equal(String(await content(w, made['out.bin'].id)), 'new\n');
    await w.api.sessions.delete(session.id);
    await refused(w.api.files.retrieveMetadata(made['out.bin'].id), 'NotFoundError');
  },

  async 'files.message'(w) {
    const image = await upload(w, 'a.gif', Buffer.from('474946383961010001000000003b', 'hex'), 'image/gif');
    const paper = await upload(w, 'a.pdf', '%PDF-1.7\n', 'application/pdf');
    const block = (type, id) => ({ type, source: { type: 'file', file_id: id } });
    const words = { type: 'text', text: script([{ text: 'Seen.' }]) };
    const talk = await w.talk();
    const blocks = [block('image', image.id), block('document', paper.id), words];
    const [sent] = await talk.send({ type: 'user.message', content: blocks });
    assert.deepEqual(sent.content.slice(0, 2).map((found) => found.source.file_id), [image.id, paper.id]);
    const heard = await talk.idle();
    assert.equal(text(one(heard, 'agent.message')), 'Seen.');
    const send = (...given) => talk.send({ type: 'user.message', content: [block(...given)] });
    const wrong = await refused(send('image', paper.id), 'BadRequestError');
    assert.match(wrong.message, /content\.0\.source\.file_id/);
    await refused(send('document', UNKNOWN), 'NotFoundError');
    talk.close();
  },

  async 'sessions.resources.create'(w) {
    const given = await upload(w);
    const resources = [mount(given.id), mount(given.id, '/a/b.txt')];
    const session = await w.session([toolset()], { resources });
    const paths = session.resources.map((item) => item.mount_path);
    assert.deepEqual(paths, [`${UPLOADS}/${given.id}`, `${UPLOADS}/a/b.txt`]);
    const copies = session.resources.map((item) => item.file_id);
    assert.ok(new Set([...copies, given.id]).size === 3);
    const scoped = await (await w.api.files.list({ scope_id: session.id })).all();
    assert.deepEqual(ids(scoped).sort(), copies.sort());
  },

  async 'sessions.resources.add'(w) {
    const [given, session] = [await upload(w), await w.session()];
    const { resources } = w.api.sessions;
    const first = await resources.add(session.id, mount(given.id));
    const second = await resources.add(session.id, mount(given.id, '/x//y.txt'));
    assert.deepEqual([first.mount_path, second.mount_path], [`${UPLOADS}/${given.id}`, `${UPLOADS}/x/y.txt`]);
    assert.deepEqual(await resources.retrieve(first.id, { session_id: session.id }), first);
    const shown = await w.api.sessions.retrieve(session.id);
    assert.deepEqual(ids(shown.resources), [first.id, second.id]);
  },

  async 'sessions.resources.list'(w) {
    const [given, session] = [await upload(w), await w.session()];
    const { resources } = w.api.sessions;
    const made = [];
    for (let n = 0; n < 5; n++) made.push((await resources.add(session.id, mount(given.id, `/${n}`))).id);
    const all = await resources.list(session.id);
    assert.deepEqual([ids(all.data), all.nextPage], [made, null]);
    const page = await resources.list(session.id, { limit: 2 });
    assert.equal(page.data.length, 2);
    assert.deepEqual(ids(await page.all()), made);
  },

  async 'sessions.resources.delete'(w) {
    const [given, session] = [await upload(w), await w.session()];
    const { resources } = w.api.sessions;
    const made = await resources.add(session.id, mount(given.id));
    const within = { session_id: session.id };
    await refused(w.api.files.delete(made.file_id), 'BadRequestError');
    const gone = { id: made.id, type: 'session_resource_deleted' };
    assert.deepEqual(await resources.delete(made.id, within), gone);
    await refused(resources.retrieve(made.id, within), 'NotFoundError');
    await refused(w.api.files.retrieveMetadata(made.file_id), 'NotFoundError');
    assert.equal((await w.api.files.retrieveMetadata(given.id)).id, given.id);
  },

  async 'sessions.resources.refused'(w) {
    const [given, session] = [await upload(w), await w.session()];
    const { resources } = w.api.sessions;
    const made = await resources.add(session.id, mount(given.id, '/a'));
    for (const path of ['/a', '/a/b', '/../b', 'b']) {
      await refused(resources.add(session.id, mount(given.id, path)), 'BadRequestError');
    }
    await refused(resources.add(session.id, mount(UNKNOWN)), 'NotFoundError');
    const update = { session_id: session.id, authorization_token: 'x' };
    await refused(resources.update(made.id, update), 'BadRequestError');
    const store = { type: 'memory_store', memory_store_id: 'memstore_1' };
    const error = await refused(w.session([], { resources: [store] }), 'BadRequestError');
    assert.equal(error.errorCode, 'not_supported');
  },
};
