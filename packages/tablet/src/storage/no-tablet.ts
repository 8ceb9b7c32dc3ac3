import { InvalidStateError } from "@diskmesh/domain";

/** Returns the error for a storage without the tablet that it should hold. */
export function noTablet(where: string): InvalidStateError {
  return new InvalidStateError(
    `${where} holds no tablet: check that the config's tablet.storage is right and its volume mounted; for a new installation make the tablet once with \`diskmesh init SERVICE --config CONFIG\``,
  );
}
