import { type DiffConfigRequest, type DiffConfigResponse, LineChange as WireLineChange } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { LineChange } from "../yaml/line-diff.js";
import type { ConfigContext } from "./context.js";
import { CPI } from "./cpi-configs.js";
import { knownConfig, latestConfig, parseConfigName, parseConfigType } from "./parse-config.js";
import { readConfig } from "./update-config.js";

const CHANGES: Readonly<Record<LineChange, WireLineChange>> = {
  none: WireLineChange.UNSPECIFIED,
  added: WireLineChange.ADDED,
  removed: WireLineChange.REMOVED,
};

export async function diffConfig(
  context: ConfigContext,
  request: DiffConfigRequest,
  call: CallContext,
): Promise<DiffConfigResponse> {
  const type = parseConfigType(request.type);
  const name = parseConfigName(request.name);
  const { fromConfigId, toConfigId, content } = request;
  const read = toConfigId === undefined ? await readConfig(context, type, name, content, call.signal) : undefined;
  const { from, to, warnings } = await context.tablet.read((tables) => {
    const from =
      fromConfigId === undefined ? latestConfig(tables, type, name) : knownConfig(tables, type, name, fromConfigId);
    if (toConfigId !== undefined)
      return { from, to: knownConfig(tables, type, name, toConfigId).content, warnings: [] };
    return { from, to: content, warnings: read?.check(tables) ?? [] };
  });
  const lines = await context.configs.reader.read(
    { format: "config_diff", from: from?.content, text: to, redact: type === CPI },
    { signal: call.signal },
  );
  const changed = lines.some((line) => line.change !== "none");
  return {
    fromConfigId: from?.configId ?? 0,
    lines: changed ? lines.map(({ text, change }) => ({ text, change: CHANGES[change] })) : [],
    warnings: changed ? [...warnings] : [],
  };
}
