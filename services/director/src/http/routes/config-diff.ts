import { LineChange } from "@diskmesh/api/director";
import { NotFoundError } from "@diskmesh/domain";
import { CPI } from "../../configs/cpi-configs.js";
import { diffConfig } from "../../configs/diff-config.js";
import { checkPlain } from "../../configs/update-config.js";
import type { Config } from "../../store/config.js";
import { configKey } from "../../store/schema.js";
import type { Fields } from "../body.js";
import { BadRequestError } from "../http-error.js";
import type { HttpCall } from "../route.js";

/** The line and its change; null for an unchanged line. */
type DiffLine = readonly [string, "added" | "removed" | null];

/** Returns the diff between the latest version, whose id is `from` (0 for none), and the new content. */
export async function diffWithLatest(
  { context, call }: HttpCall,
  wanted: { readonly type: string; readonly name: string; readonly content: string },
): Promise<{ readonly from: number; readonly diff: readonly DiffLine[] }> {
  const request = { ...wanted, fromConfigId: undefined, toConfigId: undefined };
  const { fromConfigId, lines, warnings } = await diffConfig(context, request, call);
  const diff = lines.map(({ text, change }): DiffLine => [text, changeOf(change)]);
  // Warnings are part of the diff, because BOSH's clients show only the diff before they ask for confirmation.
  const warned = warnings.map((warning): DiffLine => [`# Warning: ${warning}`, null]);
  return { from: fromConfigId, diff: [...diff, ...warned] };
}

function changeOf(change: LineChange): DiffLine[1] {
  if (change === LineChange.ADDED) return "added";
  return change === LineChange.REMOVED ? "removed" : null;
}

/** Returns the diff of two sides, each given as the id of a stored version or as content. */
export async function diffOfTwo(
  http: HttpCall,
  fromFields: Fields,
  toFields: Fields,
): Promise<{ readonly diff: readonly DiffLine[] }> {
  const [from, to] = [await sideOf(http, fromFields), await sideOf(http, toFields)];
  const redact = from.isSecret || to.isSecret;
  return { diff: await diffOfTexts(http, { from: from.content, text: to.content, redact }) };
}

/** Returns the diff of two accepted texts; empty when they are equivalent. */
export async function diffOfTexts(
  { context, call }: HttpCall,
  texts: { readonly from: string | undefined; readonly text: string; readonly redact: boolean },
): Promise<readonly DiffLine[]> {
  const lines = await context.configs.reader.read({ format: "config_diff", ...texts }, { signal: call.signal });
  const changed = lines.some(({ change }) => change !== "none");
  return changed ? lines.map(({ text, change }) => [text, change === "none" ? null : change]) : [];
}

async function sideOf(
  http: HttpCall,
  fields: Fields,
): Promise<{ readonly content: string; readonly isSecret: boolean }> {
  const id = fields.optionalText("id");
  if (id === undefined) {
    const content = fields.text("content");
    await checkPlain(http.context, "content", content, http.call.signal);
    return { content, isSecret: false };
  }
  const { type, content } = await configOfId(http, configIdOf(id));
  return { content, isSecret: type === CPI };
}

/** Throws NotFoundError when the version does not exist. */
export async function configOfId({ context }: HttpCall, configId: number): Promise<Config> {
  const config = await context.tablet.read((tables) => tables.configs.get(configKey(configId)));
  if (config !== undefined) return config;
  throw new NotFoundError(`Config ${configId} not found`, { about: { type: "", config_id: String(configId) } });
}

export function configIdOf(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new BadRequestError("from and to must be ids of configs, which are numbers");
}
