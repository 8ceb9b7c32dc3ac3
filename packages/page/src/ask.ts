/** HTTP status 401: no session, or the user may not see the resource. */
export class UnauthorizedError extends Error {}

/** Throws an Error with the director's own message, or one that says that it does not answer. */
export async function ask<Answer>(path: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(path, init).catch((error: unknown) => {
    // The browser's own text, such as "Failed to fetch", names nothing.
    throw error instanceof TypeError ? new Error("The director does not answer.") : error;
  });
  const text = await response.text();
  if (response.ok) return (text === "" ? undefined : JSON.parse(text)) as Answer;
  const message = describe(text) || `${response.status} ${response.statusText}`;
  throw response.status === 401 ? new UnauthorizedError(message) : new Error(message);
}

/** Posts JSON; the answer may be empty. Throws like `ask`. */
export function post<Answer>(path: string, body: object): Promise<Answer> {
  const headers = { "content-type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

function describe(text: string): string {
  try {
    return String((JSON.parse(text) as { readonly description?: string }).description ?? "");
  } catch {
    return text.slice(0, 200);
  }
}
