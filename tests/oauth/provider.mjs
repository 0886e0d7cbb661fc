// An OAuth provider that nobody here wrote, and an MCP server that takes its access tokens and no other.
//
//     node provider.mjs PORT KEY CERTIFICATE
//
// It rotates refresh tokens, and takes the whole grant away from whoever uses one twice. What a test wants of
// it beside that is asked below `/control`.

import { readFileSync } from 'node:fs';
import https from 'node:https';
import { setTimeout as pause } from 'node:timers/promises';

import Provider from 'oidc-provider';

const [port, key, cert] = process.argv.slice(2);
const redirect = 'https://client.example/callback';
const secret = 'client secret/1+2&3';

const client = (client_id, method) => ({
  client_id,
  ...(method === 'none' ? {} : { client_secret: secret }),
  token_endpoint_auth_method: method,
  grant_types: ['authorization_code', 'refresh_token'],
  redirect_uris: [redirect],
  response_types: ['code'],
});

const provider = new Provider(`https://127.0.0.1:${port}`, {
  clients: [
    client('client:basic', 'client_secret_basic'),
    client('client:post', 'client_secret_post'),
    client('client:none', 'none'),
  ],
  cookies: { keys: ['a key of a test'] },
  features: { devInteractions: { enabled: true } },
  rotateRefreshToken: true,
  ttl: { AccessToken: 3_600, AuthorizationCode: 60, Grant: 86_400, IdToken: 60, Interaction: 60, RefreshToken: 86_400, Session: 600 },
});

// What happened, by client.
const books = {};
const of = (id) => (books[id] ??= { granted: 0, used: 0, refused: [], revoked: 0, tokens: [] });
provider.on('grant.success', (ctx) => {
  if (ctx.oidc.params.grant_type === 'refresh_token') of(ctx.oidc.client.clientId).granted += 1;
});
provider.on('grant.error', (ctx, error) => of(ctx.oidc.client?.clientId).refused.push(error.error));
provider.on('grant.revoked', (ctx) => { of(ctx.oidc.client.clientId).revoked += 1; });
provider.on('refresh_token.consumed', (token) => { of(token.clientId).used += 1; });
for (const event of ['access_token.saved', 'access_token.issued']) {
  provider.on(event, (token) => { of(token.clientId).tokens.push(token); });
}

// How the token endpoint fails, if it does, and how long it takes.
const trouble = { status: 0, pause: 0 };

const control = {
  books: (id) => ({ ...of(id), tokens: undefined }),
  async stale(id) {
    await Promise.all(of(id).tokens.splice(0).map((token) => token.destroy()));
  },
  async revoke(id) {
    const grants = new Set(of(id).tokens.map((token) => token.grantId));
    await Promise.all([...grants].flatMap((grant) => [
      provider.Grant.adapter.destroy(grant),
      provider.AccessToken.revokeByGrantId(grant),
      provider.RefreshToken.revokeByGrantId(grant),
    ]));
  },
  trouble(status, pause) {
    Object.assign(trouble, { status: Number(status), pause: Number(pause) });
  },
};

const answer = (response, status, body, headers = {}) => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(body === undefined ? '' : JSON.stringify(body));
};

const body = async (request) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  return JSON.parse(Buffer.concat(parts).toString());
};

const results = {
  initialize: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'guarded', version: '1' } },
  'tools/list': { tools: [] },
};

// The MCP server of a client: what its provider does not know any more is refused.
async function mcp(request, response, id) {
  const { id: number, method } = await body(request);
  const bearer = (request.headers.authorization ?? '').replace(/^Bearer /, '');
  const token = await provider.AccessToken.find(bearer);
  if (token?.clientId !== id) {
    return answer(response, 401, { error: 'invalid_token' }, { 'www-authenticate': 'Bearer error="invalid_token"' });
  }
  if (method !== 'initialize' && request.headers['mcp-session-id'] !== 's-1') return answer(response, 404, {});
  if (number === undefined) return answer(response, 202);
  return answer(response, 200, { jsonrpc: '2.0', id: number, result: results[method] }, { 'mcp-session-id': 's-1' });
}

const served = provider.callback();

https.createServer({ key: readFileSync(key), cert: readFileSync(cert) }, async (request, response) => {
  const [, first, ...words] = new URL(request.url, 'https://h').pathname.split('/').map(decodeURIComponent);
  if (first === 'control') return answer(response, 200, (await control[words[0]](...words.slice(1))) ?? {});
  if (first === 'mcp') return mcp(request, response, words[0]);
  if (first === 'token' && request.headers['x-sign-in'] === undefined) {
    await pause(trouble.pause);
    if (trouble.status) return answer(response, trouble.status, { error: 'temporarily_unavailable' });
  }
  return served(request, response);
}).listen(Number(port), '127.0.0.1', () => console.log('ready'));
