import type { Action } from "../action.js";
import { kindOfOrphan, orphanNamed } from "../orphans.js";

export const forgetOrphan: Action = {
  usage: "forget-orphan <token>",
  summary: "take a possible orphan from the list without deleting it, once it is gone from the infrastructure",
  example: "diskmesh forget-orphan 1c7b6a8e-5f0d-4a57-9d0b-3f6f0a4f6a11",
  run: async ({ args, mesh, output }) => {
    const orphan = await orphanNamed(mesh, args[0] ?? "");
    await mesh.deployments.forgetPossibleOrphan({ token: orphan.token });
    output.answer(orphan, `forgot ${kindOfOrphan(orphan)} ${orphan.cid || orphan.token} of ${orphan.madeFor}`);
  },
};
