import { type ConfigServiceService, LineChange as WireLineChange } from "@diskmesh/api/director";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import type { LineChange } from "../model/line-diff.js";
import { diffLines } from "../model/line-diff.js";
import { comparableLines, withoutMarks } from "../yaml/comparable.js";
import { CPI } from "../yaml/cpi-configs.js";
import { knownConfig, latestConfig, parseConfigName, parseConfigType } from "./parse-config.js";
import { checkConfig } from "./update-config.js";

const CHANGES: Readonly<Record<LineChange, WireLineChange>> = {
  none: WireLineChange.UNSPECIFIED,
  added: WireLineChange.ADDED,
  removed: WireLineChange.REMOVED,
};

export function diffConfig(context: Context): Handler<(typeof ConfigServiceService)["diffConfig"]> {
  return async (request) => {
    const type = parseConfigType(request.type);
    const name = parseConfigName(request.name);
    const { fromConfigId, toConfigId } = request;
    const { from, to } = await context.tablet.read((tables) => {
      const from =
        fromConfigId === undefined ? latestConfig(tables, type, name) : knownConfig(tables, type, name, fromConfigId);
      if (toConfigId !== undefined) return { from, to: knownConfig(tables, type, name, toConfigId).content };
      checkConfig(context, tables, type, name, request.content);
      return { from, to: request.content };
    });
    const linesOf = (content: string): string[] => comparableLines(content, { redact: type === CPI });
    const lines = diffLines(from === undefined ? [] : linesOf(from.content), linesOf(to));
    const changed = lines.some((line) => line.change !== "none");
    return {
      fromConfigId: from?.configId ?? 0,
      lines: changed ? lines.map(({ text, change }) => ({ text: withoutMarks(text), change: CHANGES[change] })) : [],
    };
  };
}
