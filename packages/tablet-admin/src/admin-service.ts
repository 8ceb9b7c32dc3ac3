import { AdminServiceDefinition, type CreateBackupResponse } from "@diskmesh/api/common";
import { allow, offer, type RpcServer } from "@diskmesh/rpc";
import type { Schema, Tablet } from "@diskmesh/tablet";

/** Adds what operators ask of every service with a tablet. `current` throws UnavailableError while this process does not lead. */
export function addAdminService<S extends Schema>(
  server: Pick<RpcServer, "addService">,
  current: () => { readonly tablet: Tablet<S> },
): void {
  offer(server, AdminServiceDefinition, current, { createBackup: allow(["operator"], createBackup) });
}

async function* createBackup<S extends Schema>({
  tablet,
}: {
  readonly tablet: Tablet<S>;
}): AsyncGenerator<CreateBackupResponse> {
  for await (const piece of tablet.backup(Date.now())) yield { piece: Buffer.from(piece) };
}
