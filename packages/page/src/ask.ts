/** Throws an Error with the director's own words. */
export async function ask<Answer>(path: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(path, init);
  const text = await response.text();
  if (response.ok) return JSON.parse(text) as Answer;
  throw new Error(describe(text) || `${response.status} ${response.statusText}`);
}

function describe(text: string): string {
  try {
    return String((JSON.parse(text) as { readonly description?: string }).description ?? "");
  } catch {
    return text.slice(0, 200);
  }
}
