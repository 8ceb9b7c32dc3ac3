/** Fields whose texts are logged: names and ids of objects, and enumerations. Other texts may contain secrets. */
const NAMES =
  /(?:Id|Ids|Cid|Name)$|^(?:name|type|deployment|group|instance|az|rack|pool|state|health|verdict|queue|method|httpMethod|driver|version|path|reason)$/;
/**
 * Message fields whose subfields are logged. Maps and free-form messages are left out, because callers choose their
 * field names.
 */
const PARTS = /^(?:selection|options|target|wanted|stamp)$/;
const MAX_TEXT_LENGTH = 200;
const MAX_ITEMS = 16;

/** Returns the loggable parts of a request: numbers, enumerations, and names of objects. */
export function shownRequest(request: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof request !== "object" || request === null) return undefined;
  const shown: Record<string, unknown> = {};
  let isEmpty = true;
  for (const [name, value] of Object.entries(request)) {
    const told = shownValue(name, value);
    if (told === undefined) continue;
    shown[name] = told;
    isEmpty = false;
  }
  return isEmpty ? undefined : shown;
}

function shownValue(name: string, value: unknown): unknown {
  if (typeof value === "number") return value === 0 ? undefined : value;
  if (typeof value === "boolean") return value ? true : undefined;
  if (typeof value === "string") return value !== "" && NAMES.test(name) ? shortened(value) : undefined;
  if (Array.isArray(value)) return shownItems(name, value);
  if (isChoice(value)) return shownRequest({ [value.$case]: value.value });
  return PARTS.test(name) ? shownRequest(value) : undefined;
}

/** Returns true for a oneof as ts-proto generates it. */
function isChoice(value: unknown): value is { readonly $case: string; readonly value: unknown } {
  return typeof value === "object" && value !== null && "$case" in value && typeof value.$case === "string";
}

/** Reduces each message of a list to its id. */
function shownItems(name: string, items: readonly unknown[]): unknown[] | undefined {
  const named = items.flatMap((item) => {
    const text = typeof item === "string" && NAMES.test(name) ? item : idOf(item);
    return text === undefined ? [] : [text];
  });
  if (named.length === 0) return undefined;
  const some = named.slice(0, MAX_ITEMS).map(shortened);
  return named.length > MAX_ITEMS ? [...some, `and ${named.length - MAX_ITEMS} more`] : some;
}

function idOf(item: unknown): string | undefined {
  if (typeof item !== "object" || item === null) return undefined;
  const id = Object.entries(item).find(([name]) => /Id$/.test(name))?.[1];
  return typeof id === "string" ? id : undefined;
}

function shortened(text: string): string {
  return text.length > MAX_TEXT_LENGTH ? `${text.slice(0, MAX_TEXT_LENGTH)}...` : text;
}
