import BTreeModule from "sorted-btree";
import bulkLoadModule from "sorted-btree/extended/bulkLoad.js";

// sorted-btree is CommonJS and puts its class on exports.default.
const BTree = BTreeModule.default;
export type OrderedMap<Value> = BTreeModule.default<string, Value>;

const NODE_SIZE_MAX = 64;

/** Length from which an insert into the middle of an array costs more than an insert into a tree. */
const ARRAY_LENGTH_MAX = 256;

function compareKeys(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Returns an empty map sorted by key, with cheap inserts and cheap reads from any key on. */
export function orderedMap<Value>(): OrderedMap<Value> {
  return new BTree<string, Value>(undefined, compareKeys, NODE_SIZE_MAX);
}

/**
 * Returns a map of the values, sorted by key. Keys must be distinct. Values in ascending order are the cheapest; others
 * are sorted in place.
 */
export function orderedMapOf<Value>(values: Value[], keyOf: (value: Value) => string): OrderedMap<Value> {
  let keys = values.map(keyOf);
  if (!isAscending(keys)) {
    values.sort((a, b) => compareKeys(keyOf(a), keyOf(b)));
    keys = values.map(keyOf);
  }
  return bulkLoadModule.bulkLoad(keys, values, NODE_SIZE_MAX, compareKeys);
}

function isAscending(keys: readonly string[]): boolean {
  for (let i = 1; i < keys.length; i++) if ((keys[i - 1] as string) >= (keys[i] as string)) return false;
  return true;
}

/**
 * Keys that share one index value, ascending: a string for one key, a sorted array for a few, a tree for many. Keeps
 * the memory overhead low for indexes of both kinds: many values with one key each, and few values with many keys each.
 */
export type KeySet = string | string[] | OrderedMap<undefined>;

/** Returns the set with the key added. The given set may be modified and returned. */
export function withKey(set: KeySet | undefined, key: string): KeySet {
  if (set === undefined) return key;
  if (typeof set === "string") return set === key ? set : set < key ? [set, key] : [key, set];
  if (Array.isArray(set)) {
    const at = firstAtOrAbove(set, key);
    if (set[at] === key) return set;
    if (set.length < ARRAY_LENGTH_MAX) {
      set.splice(at, 0, key);
      return set;
    }
    const tree = orderedMap<undefined>();
    for (const each of set) tree.set(each, undefined);
    tree.set(key, undefined);
    return tree;
  }
  set.set(key, undefined);
  return set;
}

/** Returns the set without the key; undefined when it is empty. The given set may be modified. */
export function withoutKey(set: KeySet | undefined, key: string): KeySet | undefined {
  if (set === undefined || set === key) return undefined;
  if (typeof set === "string") return set;
  if (Array.isArray(set)) {
    const at = firstAtOrAbove(set, key);
    if (set[at] === key) set.splice(at, 1);
    return set.length === 1 ? set[0] : set;
  }
  set.delete(key);
  return set.size === 0 ? undefined : set;
}

export function sizeOfKeySet(set: KeySet | undefined): number {
  if (set === undefined) return 0;
  if (typeof set === "string") return 1;
  return Array.isArray(set) ? set.length : set.size;
}

export function lastKey(set: KeySet | undefined): string | undefined {
  if (set === undefined || typeof set === "string") return set;
  return Array.isArray(set) ? set.at(-1) : set.maxKey();
}

/** Returns up to `limit` keys above `after`, ascending. */
export function keysAfter(set: KeySet | undefined, after: string | undefined, limit: number): string[] {
  if (set === undefined) return [];
  if (typeof set === "string") return limit > 0 && (after === undefined || set > after) ? [set] : [];
  if (Array.isArray(set)) {
    let start = after === undefined ? 0 : firstAtOrAbove(set, after);
    if (set[start] === after) start++;
    return set.slice(start, start + limit);
  }
  const keys: string[] = [];
  for (const key of set.keys(after)) {
    if (keys.length >= limit) break;
    if (key !== after) keys.push(key);
  }
  return keys;
}

function firstAtOrAbove(sorted: readonly string[], key: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as string) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
