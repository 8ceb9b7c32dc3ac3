import { Readable } from "node:stream";
import type { UploadStemcellRequest } from "@diskmesh/api/director";
import { CancelledError, InvalidArgumentError } from "@diskmesh/domain";
import { listStemcells, stemcellTasks } from "../../stemcells/handlers.js";
import { cpisToAsk } from "../../stemcells/update-stemcell.js";
import { uploadStemcell } from "../../stemcells/upload-stemcell.js";
import { json, jsonList, toTask } from "../answer.js";
import { bodyObject, fieldsOf, textOfStream } from "../body.js";
import { STEMCELL_TYPES } from "../content-type.js";
import { pagesOf } from "../pages.js";
import type { Route } from "../route.js";
import { startTask } from "./start-task.js";

export const stemcellRoutes: readonly Route[] = [
  {
    method: "POST",
    path: "/stemcell_uploads",
    operation: "uploadStemcell",
    serve: async ({ context, request }) => {
      const stemcell = bodyObject(request).inner("stemcell");
      const [name, version] = [stemcell.optionalText("name"), stemcell.optionalText("version")];
      // Without name and version the upload is always needed. A client that uploads from a URL may not know them.
      if (name === undefined || version === undefined) return json({ needed: true });
      const wanted = { name, version, fix: false };
      const { cpis } = await context.tablet.read((tables) => cpisToAsk(context, tables, wanted));
      return json({ needed: cpis.length > 0 });
    },
  },
  {
    method: "POST",
    path: "/stemcells",
    accepts: STEMCELL_TYPES,
    operation: "uploadStemcell",
    streams: true,
    serve: async ({ context, call, request, query }) => {
      if (!(request.body instanceof Readable))
        throw new InvalidArgumentError("the body is empty: send the stemcell's tgz");
      const fix = query.get("fix") === "true";
      const isJson = /^application\/json\b/i.test(request.headers["content-type"] ?? "");
      const parts = isJson ? elsewhere(request.body, fix) : partsOf(request.body, fix);
      return toTask((await uploadStemcell(context, parts, call)).task?.taskId);
    },
  },
  {
    method: "GET",
    path: "/stemcells",
    operation: "listStemcells",
    teams: "own",
    serve: async ({ context }) => {
      const pages = pagesOf(
        (page) => listStemcells(context, page),
        ({ stemcells }) =>
          stemcells.map((stemcell) => ({
            name: stemcell.name,
            operating_system: stemcell.operatingSystem,
            version: stemcell.version,
            cid: stemcell.stemcellCid,
            cpi: stemcell.cpi,
            deployments: stemcell.deployments.map((name) => ({ name })),
            api_version: stemcell.apiVersion,
          })),
      );
      return jsonList(pages);
    },
  },
  {
    method: "DELETE",
    path: "/stemcells/:name/:version",
    operation: "deleteStemcell",
    serve: (http) => {
      const [name, version, force] = [http.param("name"), http.param("version"), http.query.get("force") === "true"];
      return startTask(http, stemcellTasks.deleteStemcell, { name, version, force });
    },
  },
];

/** Yields the upload request for a stemcell at a URL. */
async function* elsewhere(bytes: Readable, fix: boolean): AsyncGenerator<UploadStemcellRequest> {
  const fields = fieldsOf(await textOfStream(bytes));
  const [location, digest] = [fields.text("location"), fields.optionalText("sha1") ?? ""];
  yield { part: { $case: "header", value: { digest, fix, wait: false, location } } };
}

/** Yields an uploaded stemcell as gRPC request parts, streamed chunk by chunk. */
async function* partsOf(bytes: Readable, fix: boolean): AsyncGenerator<UploadStemcellRequest> {
  yield { part: { $case: "header", value: { digest: "", fix, wait: false, location: "" } } };
  try {
    for await (const chunk of bytes) yield { part: { $case: "chunk", value: chunk as Buffer } };
  } catch (error) {
    throw new CancelledError("the client closed the connection while it uploaded the stemcell", { cause: error });
  }
}
