import type { ListStemcellsRequest, ListStemcellsResponse, StemcellServiceDefinition } from "@diskmesh/api/director";
import { NotFoundError, parseName } from "@diskmesh/domain";
import { type Handlers, pageOf, type Serve } from "@diskmesh/rpc";
import { deploymentsWith } from "../instances/recorded-deployments.js";
import { stemcellKey } from "../store/schema.js";
import { formatStemcell } from "../store/stemcell.js";
import type { TaskContext } from "../tasks/context.js";
import { taskMethod } from "../tasks/task-method.js";
import { encodeStemcell } from "./wire.js";

export async function listStemcells(
  { tablet }: TaskContext,
  request: ListStemcellsRequest,
): Promise<ListStemcellsResponse> {
  const { items, nextPageToken } = await pageOf(tablet, request, {
    what: "stemcells",
    rows: ({ stemcells }, from) => stemcells.entries(from),
    keyOf: stemcellKey,
    describe: (tables, stemcell) => encodeStemcell(stemcell, deploymentsWith(tables, stemcell)),
  });
  return { stemcells: [...items], nextPageToken };
}

type Service = Handlers<typeof StemcellServiceDefinition>;
type Name = "deleteStemcell";

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
