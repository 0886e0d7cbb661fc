// Holds every object of the server to the client's own declarations.
//
// TypeScript's types are gone when a program runs, so the client checks nothing. Here the compiler
// reads the client's declaration files, and each answer is compared with the type that the called
// method declares: nothing required may be missing, nothing may be there that is not declared.

import ts from 'typescript';

const SOURCE = `
import Anthropic from '@anthropic-ai/sdk';
declare const beta: Anthropic['beta'];
declare const top: Anthropic;
export { beta, top };
`;

const Flags = ts.TypeFlags;

/** The types of the client's methods. */
export class Types {
  constructor(folder) {
    const file = `${folder}/declared.mts`;
    const options = {
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      target: ts.ScriptTarget.ES2022,
      skipLibCheck: true,
      strict: true,
      types: [],
    };
    const host = ts.createCompilerHost(options);
    const { getSourceFile, fileExists, readFile } = host;
    host.fileExists = (name) => name === file || fileExists.call(host, name);
    host.readFile = (name) => (name === file ? SOURCE : readFile.call(host, name));
    host.getSourceFile = (name, ...rest) =>
      name === file
        ? ts.createSourceFile(name, SOURCE, ts.ScriptTarget.ES2022)
        : getSourceFile.call(host, name, ...rest);
    const program = ts.createProgram([file], options, host);
    this.checker = program.getTypeChecker();
    this.place = program.getSourceFile(file);
    for (const symbol of this.checker.getExportsOfModule(this.checker.getSymbolAtLocation(this.place))) {
      this[symbol.name] = this.checker.getTypeOfSymbolAtLocation(symbol, this.place);
    }
    this.known = new Map();
  }

  /** Finds what a method like `sessions.events.list` gives: a model, an item of a list or stream. */
  of(path) {
    if (!this.known.has(path)) this.known.set(path, this.find(path));
    return this.known.get(path);
  }

  find(path) {
    // What stands in both is asked of the API itself.
    let type = path.startsWith('models.') ? this.top : this.beta;
    for (const name of path.split('.')) {
      const property = this.checker.getPropertyOfType(type, name);
      if (!property) throw new Error(`the client declares no \`${path}\``);
      type = this.checker.getTypeOfSymbolAtLocation(property, this.place);
    }
    const signatures = type.getCallSignatures();
    const result = this.checker.getReturnTypeOfSignature(signatures[0]);
    return this.inner(result);
  }

  /** Takes promises, pages and streams off a type. */
  inner(type) {
    const name = type.symbol?.name ?? type.aliasSymbol?.name;
    const [first, second] = this.checker.getTypeArguments(type) ?? [];
    if (name === 'PagePromise') return second;
    if (name === 'APIPromise' || name === 'Stream') return this.inner(first);
    return type;
  }

  /** Returns what is wrong with a value, as lines of text. */
  faults(value, path) {
    return [...this.compare(value, this.of(path), '')];
  }

  *compare(value, type, at) {
    const { flags } = type;
    if (flags & (Flags.Any | Flags.Unknown)) return;
    if (type.isUnion()) return yield* this.union(value, type, at);
    if (type.isIntersection() && !(flags & Flags.Object) && typeof value === 'string') return;
    if (flags & Flags.Null) return yield* expect(value === null, at, value, 'null');
    if (flags & (Flags.Undefined | Flags.Void)) return yield* expect(value === undefined, at, value, 'nothing');
    if (type.isLiteral()) return yield* expect(value === type.value, at, value, String(type.value));
    if (flags & Flags.BooleanLiteral) {
      return yield* expect(String(value) === type.intrinsicName, at, value, type.intrinsicName);
    }
    if (flags & Flags.StringLike) return yield* expect(typeof value === 'string', at, value, 'a string');
    if (flags & Flags.NumberLike) return yield* expect(typeof value === 'number', at, value, 'a number');
    if (flags & Flags.BooleanLike) return yield* expect(typeof value === 'boolean', at, value, 'a boolean');
    if (this.checker.isArrayType(type)) return yield* this.array(value, type, at);
    yield* this.object(value, type, at);
  }

  /** One member must fit; where members are told by `type`, the one that is told is compared. */
  *union(value, type, at) {
    const told = type.types.filter((member) => this.tells(member, value));
    const members = told.length ? told : type.types;
    const tries = members.map((member) => [...this.compare(value, member, at)]);
    if (tries.some((faults) => faults.length === 0)) return;
    const [best] = tries.sort((a, b) => a.length - b.length);
    yield* told.length ? best : [`${at || 'it'} is none of the ${type.types.length} that are declared: ${show(value)}`];
  }

  tells(member, value) {
    if (value === null || typeof value !== 'object') return false;
    const property = this.checker.getPropertyOfType(member, 'type');
    if (!property) return false;
    const declared = this.checker.getTypeOfSymbolAtLocation(property, this.place);
    return declared.isLiteral() && declared.value === value.type;
  }

  *array(value, type, at) {
    if (!Array.isArray(value)) return yield `${at} is no array: ${show(value)}`;
    const [item] = this.checker.getTypeArguments(type);
    for (const [n, element] of value.entries()) yield* this.compare(element, item, `${at}.${n}`);
  }

  *object(value, type, at) {
    if (value === null || typeof value !== 'object') return yield `${at || 'it'} is no object: ${show(value)}`;
    const declared = new Map(this.checker.getPropertiesOfType(type).map((p) => [p.name, p]));
    for (const [name, property] of declared) {
      const inner = this.checker.getTypeOfSymbolAtLocation(property, this.place);
      const optional = property.flags & ts.SymbolFlags.Optional;
      if (value[name] === undefined && optional) continue;
      yield* this.compare(value[name], inner, join(at, name));
    }
    const index = this.checker.getIndexTypeOfType(type, ts.IndexKind.String);
    for (const name of Object.keys(value).filter((key) => !declared.has(key))) {
      if (index) yield* this.compare(value[name], index, join(at, name));
      else yield `${join(at, name)} is not declared: ${show(value[name])}`;
    }
  }
}

function* expect(fits, at, value, what) {
  if (!fits) yield `${at || 'it'} must be ${what}, not ${show(value)}`;
}

const join = (at, name) => (at ? `${at}.${name}` : name);
const show = (value) => (JSON.stringify(value) ?? 'nothing').slice(0, 200);
