import { DeviceIoError, type DomainError, InvalidArgumentError, OutdatedError } from "@diskmesh/domain";

/** Error code of an operation on a BlockIo stream. */
export type BlockErrno = "EIO" | "EINVAL" | "ENOSPC" | "ESTALE";

export function errnoOfError(error: unknown): BlockErrno {
  if (error instanceof OutdatedError) return "ESTALE";
  if (error instanceof InvalidArgumentError) return "EINVAL";
  const code = error instanceof DeviceIoError ? (error.cause as NodeJS.ErrnoException | undefined)?.code : undefined;
  return code === "ENOSPC" ? "ENOSPC" : "EIO";
}

export function errorOfErrno(errno: string, message: string): DomainError {
  if (errno === "ESTALE") return new OutdatedError(message);
  if (errno === "EINVAL") return new InvalidArgumentError(message);
  return new DeviceIoError(message, { cause: { code: errno } });
}
