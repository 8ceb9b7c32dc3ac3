import type { StemcellServiceDefinition } from "@diskmesh/api/director";
import { NotFoundError, parseName } from "@diskmesh/domain";
import type { Handlers, Serve } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { formatStemcell } from "../model/stemcell.js";
import { taskMethod } from "./task-method.js";

type Service = Handlers<typeof StemcellServiceDefinition>;
type Name = "deleteStemcell";

/** Each method that starts a task on a stemcell. */
export const stemcellTasks: { readonly [Method in Name]: Serve<TaskContext, Service[Method]> } = {
  deleteStemcell: taskMethod("normal", ({ force, ...request }) => {
    const name = parseName("name", request.name);
    const version = parseName("version", request.version);
    const stemcell = formatStemcell({ name, version });
    return {
      job: { type: "delete_stemcell", name, version, force },
      description: `delete stemcell \`${stemcell}\``,
      deployment: "",
      check: ({ stemcells }) => {
        if (stemcells.count("byStemcell", stemcell) > 0) return;
        throw new NotFoundError(`there is no stemcell \`${stemcell}\``, { about: { stemcell } });
      },
    };
  }),
};
