import type { DeleteStemcellRequest, DeleteStemcellResponse } from "@diskmesh/api/director";
import { NotFoundError, parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { formatStemcell } from "../model/stemcell.js";
import { encodeTask } from "../wire.js";
import { startTask } from "./start-task.js";

export async function deleteStemcell(
  context: Context,
  request: DeleteStemcellRequest,
  call: CallContext,
): Promise<DeleteStemcellResponse> {
  const name = parseName("name", request.name);
  const version = parseName("version", request.version);
  const shown = formatStemcell({ name, version });
  const task = await startTask(context, call, request.wait, {
    job: { type: "delete_stemcell", name, version, force: request.force },
    queue: "normal",
    description: `delete stemcell \`${shown}\``,
    deployment: () => "",
    check: (tables) => {
      if (tables.stemcells.count("byStemcell", shown) === 0)
        throw new NotFoundError(`there is no stemcell \`${shown}\``, { about: { stemcell: shown } });
    },
  });
  return { task: encodeTask(task) };
}
