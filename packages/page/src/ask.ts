/** HTTP status 401: no session, or the user may not see the resource. */
export class UnauthorizedError extends Error {}

/** A field of the request is wrong. */
export class InputError extends Error {
  constructor(
    message: string,
    private readonly field: string,
  ) {
    super(message);
  }

  /** Returns whether the input is wrong; the director names it with its unit or object, such as size_bytes. */
  isOf(input: string): boolean {
    return this.field.split(".").at(-1)?.startsWith(input) ?? false;
  }
}

/** Throws an Error with the director's own message, or one that says that it does not answer. */
export async function ask<Answer>(path: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(path, init).catch((error: unknown) => {
    // The browser's own text, such as "Failed to fetch", names nothing.
    throw error instanceof TypeError ? new Error("The director does not answer.") : error;
  });
  const text = await response.text();
  if (response.ok) return (text === "" ? undefined : JSON.parse(text)) as Answer;
  const { description, field } = failureOf(text);
  const message = description || `${response.status} ${response.statusText}`;
  if (response.status === 401) throw new UnauthorizedError(message);
  throw field === undefined ? new Error(message) : new InputError(message, field);
}

/** Posts JSON; the answer may be empty. Throws like `ask`. */
export function post<Answer>(path: string, body: object): Promise<Answer> {
  const headers = { "content-type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

function failureOf(text: string): { readonly description?: string; readonly field?: string } {
  try {
    return JSON.parse(text);
  } catch {
    return { description: text.slice(0, 200) };
  }
}
