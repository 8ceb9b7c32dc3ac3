import type { Config } from "@diskmesh/api/director";
import { allPages } from "@diskmesh/rpc";
import { type Columns, timeText } from "../../output/output.js";
import { type Action, textOption } from "../action.js";

const COLUMNS: Columns<Config> = {
  id: ({ configId }) => configId,
  type: ({ type }) => type,
  name: ({ name }) => name,
  created: ({ createTime }) => timeText(createTime),
};

export const configs: Action = {
  usage: "configs",
  summary: "list the director's configs",
  options: [
    ["--type <type>", "only configs of this type, e.g. cloud, cpi or resurrection"],
    ["--all", "also former versions"],
  ],
  example: "diskmesh configs --type cloud",
  run: async ({ mesh, output, options }) => {
    const type = textOption(options, "type");
    const found = await allPages(async (pageToken) => {
      const page = await mesh.configs.listConfigs({ type, allVersions: options.all === true, pageToken });
      return { items: page.configs, nextPageToken: page.nextPageToken };
    });
    output.list(COLUMNS, found, "no configs");
  },
};
