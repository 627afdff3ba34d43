"""The command line: parse, call one public function, render."""
