import { readFile } from "node:fs/promises";
import { messageOf } from "@diskmesh/domain";
import { UsageError } from "../../output/exit-codes.js";
import { type Action, textOption } from "../action.js";

export const updateConfig: Action = {
  usage: "update-config <type> <file>",
  summary: "store a cloud config (azs, disk types) or a cpi config in the director; former versions are kept",
  options: [["--name <name>", "name of the config, if its type has several (default)"]],
  example: "diskmesh update-config cloud cloud.yml",
  run: async ({ mesh, output, args: [type = "", file = ""], options }) => {
    const content = await readFile(file, "utf8").catch((error: unknown) => {
      throw new UsageError(`cannot read the config: ${messageOf(error)}`);
    });
    const name = textOption(options, "name");
    const { config } = await mesh.configs.updateConfig({ type, content, ...(name !== "" && { name }) });
    if (config === undefined) throw new TypeError("the answer has no config");
    // The content is not printed, because a cpi-config contains credentials.
    const { content: _secret, ...shown } = config;
    output.answer(shown, `config ${config.configId}: ${config.type}, ${config.name}`);
  },
};
