// Downloads. Without a token a plain link does; with one the file is fetched, to disk where the browser lets a page
// write there, else through a blob, which browsers keep on disk, too, when it is large.
import { send, token } from './api';

interface Picker {
  showSaveFilePicker?: (options: { suggestedName: string }) => Promise<{
    createWritable: () => Promise<WritableStream<Uint8Array>>;
  }>;
}

export function needsFetch(): boolean {
  return token.value !== '';
}

export async function save(path: string, name: string): Promise<void> {
  const picker = (window as Picker).showSaveFilePicker;
  if (picker !== undefined) {
    const file = await picker({ suggestedName: name });
    const response = await send(path);
    if (response.body !== null) await response.body.pipeTo(await file.createWritable());
    return;
  }
  const blob = await (await send(path)).blob();
  const anchor = document.createElement('a');
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 60000);
}
