import { resolve } from "node:path";
import { quoted } from "@diskmesh/domain";
import { UsageError } from "../output/exit-codes.js";
import { type Action, textOption } from "./action.js";
import { requireReadable, runServiceProgram } from "./service-program.js";

export const cpi: Action = {
  usage: "cpi <verb> <executable>",
  summary: "try EXECUTABLE: call a CPI here, without a mesh, to check each part of BOSH's contract",
  options: [
    ["--properties <file>", "the CPI's properties, as in a cpi-config (YAML); hidden in all that is printed"],
    ["--objects <file>", "the stemcell, VM and disk that are made and deleted (YAML)"],
  ],
  example: "diskmesh cpi try /var/vcap/jobs/openstack_cpi/bin/cpi --properties properties.yml --objects objects.yml",
  isOpenEnded: true,
  run: ({ output, args: [verb = "", executable = ""], options }) => {
    if (verb !== "try") throw new UsageError(`${quoted(verb)} is not a verb: give try`);
    requireReadable("executable", resolve(executable));
    const files = ["properties", "objects"].flatMap((name) => {
      const file = textOption(options, name);
      if (file === "") return [];
      requireReadable(`file of --${name}`, resolve(file));
      return [`--${name}`, resolve(file)];
    });
    return runServiceProgram(output, "cpi-dispatcher", "try-cpi", [resolve(executable), ...files]);
  },
};
