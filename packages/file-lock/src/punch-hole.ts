import { native } from "./native.js";

/**
 * Error codes of a file system or drive that cannot free space, and of a range that does not fit the drive's blocks.
 */
const CANNOT = ["ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL"];

/**
 * Frees the space of bytes of an open file, which read as zeros then. The size of the file stays. Returns false when
 * the file system or the drive cannot; then nothing has changed. Throws errors of the drive.
 */
export async function punchHole(fd: number, offsetBytes: number, lengthBytes: number): Promise<boolean> {
  try {
    await native().trim(fd, offsetBytes, lengthBytes);
    return true;
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (CANNOT.includes(code) || code === "MODULE_NOT_FOUND") return false;
    throw error;
  }
}
