import { AdminServiceService, type CreateBackupResponse } from "@diskmesh/api/common";
import type { RpcServer } from "@diskmesh/rpc";
import type { Schema, Tablet } from "@diskmesh/tablet";

/** Adds what operators ask of every service with a tablet. `current` throws UnavailableError while this process does not lead. */
export function addAdminService<S extends Schema>(
  server: Pick<RpcServer, "addService">,
  current: () => { readonly tablet: Tablet<S> },
): void {
  server.addService(AdminServiceService, {
    roles: ["operator"],
    handlers: { createBackup: () => createBackup(current().tablet) },
  });
}

async function* createBackup<S extends Schema>(tablet: Tablet<S>): AsyncGenerator<CreateBackupResponse> {
  for await (const piece of tablet.backup(Date.now())) yield { piece: Buffer.from(piece) };
}
