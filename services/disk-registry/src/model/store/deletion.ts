/** Deletion of a disk that is kept, with its runs, until a time. */
export interface Deletion {
  readonly by: string;
  readonly atMs: number;
  readonly untilMs: number;
}

/** Index key of deleted disks that are kept. */
export const DELETED = "deleted";

/**
 * Returns the document without its deletion. A backup does not say whether its deleted disks were brought back later, and
 * then erasing them would lose data.
 */
export function withoutDeletion<T extends { readonly deleted?: Deletion | undefined }>({ deleted: _, ...rest }: T) {
  return rest;
}
