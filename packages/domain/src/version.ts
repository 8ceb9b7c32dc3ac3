/** Version of all parts of diskmesh, which are released together. */
export const VERSION = "0.2.0";
