// The question as a notebook: the request, its answer, its picture.
export function notebook(answer) {
  const cell = (id, kind, ...lines) => ({
    cell_type: kind, id, metadata: {}, source: lines.map((line, i) => (i + 1 < lines.length ? `${line}\n` : line)),
    ...(kind === "code" ? { execution_count: null, outputs: [] } : {}),
  });
  const cells = [
    cell("question", "markdown", "The same on the command line:", "", `    ${answer.command}`),
    cell("answer", "code", "import rackmath as rm", "", `result = ${answer.python}`, "result"),
    cell("picture", "code", "result.figure()"),
    cell("facts", "code", "result.to_dict()"),
  ];
  const metadata = { kernelspec: { display_name: "Python 3", language: "python", name: "python3" }, language_info: { name: "python" } };
  return JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }, null, 1);
}
